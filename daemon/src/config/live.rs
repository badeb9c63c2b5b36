//! The config that holds right now: read at the start, read again by `daemon.reload`.

use std::sync::{Arc, PoisonError, RwLock};

use super::{Config, ConfigError, Flags, KEYS};

/// The config, and how it was read.
#[derive(Debug)]
pub struct Live {
    flags: Flags,
    current: RwLock<Arc<Config>>,
}

impl Live {
    /// A config that was read with some flags.
    pub fn new(flags: Flags, config: Config) -> Self {
        Self { flags, current: RwLock::new(Arc::new(config)) }
    }

    /// The config that holds.
    pub fn current(&self) -> Arc<Config> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the config again. The keys that can change in a daemon's life take effect; the others keep their values
    /// until the next start. Gives the changed keys.
    ///
    /// # Errors
    /// What is wrong with the config; then the old one goes on.
    pub fn reload(&self) -> Result<Vec<String>, ConfigError> {
        let new = Config::load(&self.flags, &super::variable)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut merged = (**current).clone();
        let mut changed = Vec::new();
        for key in KEYS.iter().filter(|key| key.is_live()) {
            let (old, new) = (merged.values.get(key.name), new.values.get(key.name));
            if let (Some(old), Some(new)) = (old, new)
                && old.value != new.value
            {
                changed.push(key.name.to_owned());
                merged.values.insert(key.name.to_owned(), new.clone());
            }
        }
        if merged.providers != new.providers {
            changed.push("provider".to_owned());
            merged.providers = new.providers;
        }
        *current = Arc::new(merged);
        Ok(changed)
    }

    /// Switches a feature on or off, until the next start or reload. `false`: there is no such flag.
    pub fn set_flag(&self, name: &str, on: bool) -> bool {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut merged = (**current).clone();
        let Some(value) = merged.values.get_mut(&format!("flags.{name}")) else { return false };
        (value.value, value.source) = (on.into(), "call".to_owned());
        *current = Arc::new(merged);
        true
    }
}
