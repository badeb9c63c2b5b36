//! Prints the OpenRPC document as it is checked in: `make golden` writes it to `proto/openrpc.json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(&ccagent_proto::openrpc::document())?;
    writeln!(std::io::stdout().lock(), "{text}")
}
