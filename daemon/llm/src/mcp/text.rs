//! What a call of a server's tool gave, as a text: pictures and sounds are told of, and not shown.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The text of a result.
pub(super) fn of(result: &CallToolResult) -> String {
    let mut parts: Vec<String> = result.content.iter().map(block).collect();
    if let Some(structured) = result.structured_content.as_ref().filter(|_| parts.is_empty()) {
        parts.push(structured.to_string());
    }
    if parts.is_empty() { "[no output]".to_owned() } else { parts.join("\n") }
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => unshown("image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => unshown("sound", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                format!(
                    "[{uri}] {}",
                    unshown("file", mime_type.as_deref().unwrap_or("unknown type"), blob.len())
                )
            }
            _ => "[a resource of a kind that can't be shown]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[link to {}: {}]", link.name, link.uri),
        // The SDK may learn of more.
        _ => "[content of a kind that can't be shown]".to_owned(),
    }
}

fn unshown(what: &str, kind: &str, base64: usize) -> String {
    format!("[{what} ({kind}, about {} bytes): it can't be shown here]", base64 / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TP-07: text is given as it is; a picture is told of, so that the model knows what it did not see.
    #[test]
    fn a_picture_is_told_of() {
        let content = vec![ContentBlock::text("one"), ContentBlock::image("AAAA", "image/png")];
        let text = of(&CallToolResult::success(content));
        assert_eq!(text, "one\n[image (image/png, about 3 bytes): it can't be shown here]");
        assert_eq!(of(&CallToolResult::success(Vec::new())), "[no output]");
        assert_eq!(of(&CallToolResult::structured(serde_json::json!({"a": 1}))), r#"{"a":1}"#);
    }
}
