//! What tokens cost. A model whose price is not known costs nothing that can be said, which is better than a wrong sum.

use serde::{Deserialize, Serialize};

use crate::message::Usage;

/// Tokens that a price is for.
const PER: f64 = 1_000_000.0;

/// The price of a model, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that no cache had.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input written to the cache.
    #[serde(default)]
    pub cache_write: f64,
    /// Input read from the cache.
    #[serde(default)]
    pub cache_read: f64,
}

impl Price {
    /// What a request cost, in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "nobody uses 2^53 tokens")]
    pub fn cost(&self, usage: Usage) -> f64 {
        let of = |tokens: u64, price: f64| tokens as f64 * price / PER;
        of(usage.input, self.input)
            + of(usage.output, self.output)
            + of(usage.cache_write, self.cache_write)
            + of(usage.cache_read, self.cache_read)
    }

    /// What a request cost, in millionths of a US dollar.
    pub fn micro(&self, usage: Usage) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` keeps within the bounds"
        )]
        let micro = (self.cost(usage) * 1e6).round() as u64;
        micro
    }

    /// The list price of one of Anthropic's models, by its id with or without a date.
    pub fn listed(model: &str) -> Option<Self> {
        let name = match model.rsplit_once('-') {
            Some((name, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) | None => model,
        };
        let (input, output) = match name {
            "claude-fable-5-1" => (10.0, 50.0),
            "claude-opus-5-5" => (4.0, 20.0),
            "claude-opus-5" | "claude-opus-4-5" | "claude-opus-4-6" | "claude-opus-4-7"
            | "claude-opus-4-8" => (5.0, 25.0),
            "claude-sonnet-5" | "claude-sonnet-5-5" => (2.0, 10.0),
            "claude-sonnet-4-5" | "claude-sonnet-4-6" => (3.0, 15.0),
            "claude-haiku-4-5" => (1.0, 5.0),
            _ => return None,
        };
        Some(Self { input, output, cache_write: input * 1.25, cache_read: input * 0.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M148, M149: what a request cost counts cached input at its own price.
    #[test]
    fn a_request_costs_what_its_tokens_cost() {
        let usage = Usage { input: 1_000_000, cache_write: 400_000, cache_read: 2_000_000, output: 100_000 };
        let cost = Price::listed("claude-haiku-4-5-20251001").unwrap().cost(usage);
        assert!((cost - (1.0 + 0.5 + 0.2 + 0.5)).abs() < 1e-9, "{cost}");
    }

    /// M148: no price is said where none is known.
    #[test]
    fn an_unknown_model_has_no_price() {
        for model in ["claude-haiku-9", "gpt-5.5", "claude-opus-5-turbo", ""] {
            assert_eq!(Price::listed(model), None, "{model}");
        }
    }
}
