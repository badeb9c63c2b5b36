//! Commands of which something is known: that they only lead to another one, or what they do to the files they name.
//!
//! A command that is in none of these is taken to read the files that it names, and not to change them. Not here: what
//! a script of a user does, which no list can say.

/// Commands that run what they are given as text or from their input.
pub(super) const SHELLS: &[&str] =
    &["ash", "bash", "dash", "fish", "ksh", "ksh93", "lksh", "mksh", "posh", "rbash", "sh", "yash", "zsh"];

/// A command that only leads to another one.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Its short options that take a value.
    valued: &'static str,
    /// Its own words before the command that is meant.
    pub(super) own: usize,
}

const fn wrapper(name: &'static str, valued: &'static str, own: usize) -> Wrapper {
    Wrapper { name, valued, own }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("--", "", 0),
    wrapper("builtin", "", 0),
    wrapper("busybox", "", 0),
    wrapper("bwrap", "", 0),
    wrapper("cgexec", "g", 0),
    wrapper("chroot", "", 1),
    wrapper("chrt", "TPD", 1),
    wrapper("command", "", 0),
    wrapper("cpulimit", "elpL", 0),
    wrapper("dbus-run-session", "", 0),
    wrapper("doas", "aCu", 0),
    wrapper("dumb-init", "", 0),
    wrapper("eatmydata", "", 0),
    wrapper("env", "uCS", 0),
    wrapper("exec", "a", 0),
    wrapper("fakeroot", "lsufb", 0),
    wrapper("firejail", "", 0),
    wrapper("flock", "wE", 1),
    wrapper("gosu", "", 1),
    wrapper("ionice", "cnpPu", 0),
    wrapper("linux32", "", 0),
    wrapper("linux64", "", 0),
    wrapper("logsave", "", 1),
    wrapper("ltrace", "aADeFlnopsuwxX", 0),
    wrapper("nice", "n", 0),
    wrapper("noglob", "", 0),
    wrapper("nohup", "", 0),
    wrapper("nsenter", "tSG", 0),
    wrapper("numactl", "iNCmpl", 0),
    wrapper("parallel", "jnNILa", 0),
    wrapper("pkexec", "u", 0),
    wrapper("prlimit", "p", 0),
    wrapper("proxychains", "f", 0),
    wrapper("rlwrap", "", 0),
    wrapper("run0", "uD", 0),
    wrapper("runcon", "turl", 0),
    wrapper("runuser", "ugGcs", 0),
    wrapper("script", "cEIOBTmo", 0),
    wrapper("setarch", "", 1),
    wrapper("setpriv", "", 0),
    wrapper("setsid", "", 0),
    wrapper("setuidgid", "", 1),
    wrapper("sg", "c", 1),
    wrapper("stdbuf", "ioe", 0),
    wrapper("strace", "abeEIoOpPsSuUX", 0),
    wrapper("su", "cgGsw", 1),
    wrapper("su-exec", "", 1),
    wrapper("sudo", "CDghpRrTtUu", 0),
    wrapper("systemd-run", "pEHMut", 0),
    wrapper("taskset", "", 1),
    wrapper("time", "fo", 0),
    wrapper("timeout", "ks", 1),
    wrapper("tini", "pe", 0),
    wrapper("toybox", "", 0),
    wrapper("unbuffer", "", 0),
    wrapper("unshare", "SGRw", 0),
    wrapper("valgrind", "", 0),
    wrapper("watch", "nq", 0),
    wrapper("xargs", "adEILnPs", 0),
    wrapper("xvfb-run", "efnpsw", 0),
];

impl Wrapper {
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        WRAPPERS.iter().find(|wrapper| wrapper.name == name)
    }

    /// Whether the value of these short options is the next word.
    pub(super) fn takes_next(&self, option: &str) -> bool {
        let mut letters = option.chars().skip(1);
        letters.find(|letter| self.valued.contains(*letter)).is_some() && letters.next().is_none()
    }
}

/// Commands that say or test the names of files, and do not look into them.
const NAMING: &[&str] = &[
    "[", "[[", ":", "alias", "basename", "break", "case", "cd", "command", "continue", "declare", "df",
    "dirname", "dirs", "du", "echo", "exit", "export", "false", "find", "for", "hash", "id", "jobs", "kill",
    "let", "local", "ls", "mkdtemp", "pathchk", "pgrep", "pkill", "popd", "printf", "ps", "pushd", "pwd",
    "readlink", "readonly", "realpath", "return", "select", "set", "shift", "sleep", "stat", "test", "trap",
    "tree", "true", "type", "typeset", "umask", "unalias", "unset", "wait", "which",
];
/// Commands that change the files that they name.
const WRITING: &[&str] = &[
    "chattr",
    "chgrp",
    "chmod",
    "chown",
    "fallocate",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "rm",
    "rmdir",
    "setfacl",
    "setfattr",
    "shred",
    "split",
    "sponge",
    "srm",
    "tee",
    "touch",
    "trash",
    "trash-put",
    "truncate",
    "unlink",
];
/// Commands that do both.
const BOTH: &[&str] = &[
    "bunzip2", "bzip2", "cp", "dd", "ed", "emacs", "ex", "gunzip", "gzip", "install", "ln", "mv", "nano",
    "patch", "perl", "rename", "rsync", "scp", "sed", "sqlite3", "tar", "unxz", "unzip", "unzstd", "vi",
    "view", "vim", "xz", "zip", "zstd",
];
/// What git does to the files that it is given: look into them, change them, or both.
const GIT_READS: &[&str] = &[
    "am",
    "annotate",
    "archive",
    "blame",
    "cat-file",
    "config",
    "diff",
    "difftool",
    "grep",
    "hash-object",
    "log",
    "show",
];
const GIT_WRITES: &[&str] = &["checkout", "clean", "restore", "rm", "worktree"];

/// The tools whose rules speak of the files that a command names.
pub(super) fn tools(name: &str, first: &str) -> &'static [&'static str] {
    match name {
        _ if NAMING.contains(&name) => &[],
        "git" if GIT_READS.contains(&first) => &["Read"],
        "git" if GIT_WRITES.contains(&first) => &["Edit"],
        "git" if ["apply", "mv"].contains(&first) => &["Read", "Edit"],
        "git" => &[],
        _ if WRITING.contains(&name) => &["Edit"],
        _ if BOTH.contains(&name) => &["Read", "Edit"],
        _ => &["Read"],
    }
}

/// Whether a command goes through the directories that it names; what decides are its options.
pub(super) fn goes_down(name: &str, options: &[&str]) -> bool {
    let has = |letters: &str, long: &[&str]| {
        options.iter().any(|option| {
            let is_short = option.starts_with('-') && !option.starts_with("--");
            is_short && option.contains(|letter| letters.contains(letter)) || long.contains(option)
        })
    };
    match name {
        "tar" | "zip" | "rsync" | "ag" | "ack" | "rg" | "mv" | "7z" | "find" => true,
        "grep" | "egrep" | "fgrep" => has("rR", &["--recursive", "--dereference-recursive"]),
        "rm" | "chmod" | "chown" | "chgrp" | "scp" | "setfacl" | "shred" => has("rR", &["--recursive"]),
        "cp" => has("rRa", &["--recursive", "--archive"]),
        "diff" => has("r", &["--recursive"]),
        _ => false,
    }
}
