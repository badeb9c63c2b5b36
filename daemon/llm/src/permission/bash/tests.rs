use super::*;
use proptest::prelude::*;

fn parts(line: &str) -> Vec<String> {
    let commands = Commands::of(line);
    assert_eq!(commands.opaque, None, "{line:?}");
    commands.parts
}

/// PM-03: a line falls into its commands, and quotes hold together what is in them.
#[test]
fn a_line_falls_into_its_commands() {
    for (line, want) in [
        ("git status", &["git status"][..]),
        ("a && b || c; d | e |& f & g", &["a", "b", "c", "d", "e", "f", "g"]),
        ("a\nb\n\nc", &["a", "b", "c"]),
        ("git commit -m 'a; b' && x", &["git commit -m 'a; b'", "x"]),
        (r#"echo "a && b" "\"; c""#, &[r#"echo "a && b" "\"; c""#]),
        (r"a\;b", &[r"a\;b"]),
        ("git \\\nstatus", &["git status"]),
        ("make 2>&1 >/dev/null | head", &["make 2>&1 >/dev/null", "head"]),
        ("make &> /dev/null; x", &["make &> /dev/null", "x"]),
        ("echo $HOME ${HOME} \"$A\"", &["echo $HOME ${HOME} \"$A\""]),
        ("sort < in | uniq", &["sort < in", "uniq"]),
    ] {
        assert_eq!(parts(line), want, "{line:?}");
    }
}

/// PM-03: what may run or write more than is seen is opaque.
#[test]
fn what_may_do_more_is_opaque() {
    for line in [
        "echo $(rm x)",
        "echo `rm x`",
        "echo \"$(rm x)\"",
        "echo \"`rm x`\"",
        "diff <(a) <(b)",
        "tee >(rm x)",
        "(rm x)",
        "f() { rm x; }",
        "echo 'a",
        "echo \"a",
        "echo a\\",
        "echo $'a\\'; rm x'",
        "echo ${a:-`x`}",
        "echo ${a@P}",
        "echo $[1]",
        "echo a > file",
        "echo a >> ~/.bashrc",
        "echo a >| file",
        "cat << EOF\nx\nEOF",
        "git status # '\nrm -rf /\n#'",
        "echo a\rb",
        "echo a\0b",
        "echo x >&file",
        "a > /dev/nullx",
        "a >/dev/null/../x",
        "a >      /dev/nullx",
        "cat <#'\nrm x\n#'",
        "cat <<< $x",
        "printf -v 'a[$(rm x)]' x",
        "cat <> file",
    ] {
        assert!(Commands::of(line).opaque.is_some(), "{line:?}");
    }
}

/// PM-03: a command that hides is found.
#[test]
fn a_hidden_command_is_guessed() {
    for line in [
        "git status; rm -rf /",
        "echo $(rm -rf /)",
        "echo \"$(rm -rf /)\"",
        "r\\m -rf /",
        "'rm' -rf /",
        "\"r\"m -rf /",
        "/bin/rm -rf /",
        "A=1 B=2 rm -rf /",
        "sudo -n rm -rf /",
        "timeout 5 rm -rf /",
        "if true; then rm -rf /; fi",
        "{ rm -rf /; }",
        "bash -c 'rm -rf /'",
        "env -i A=1 rm -rf /",
        "! rm -rf /",
        "(cd /; rm -rf /)",
        "cat <(rm -rf /)",
        "git status # '\nrm -rf /\n#'",
        "nohup rm -rf / &",
        ">/dev/null rm -rf /",
        "2> x rm -rf /",
        "rm$NOTHING -rf /",
        "$NOTHING rm -rf /",
        "source rm -rf /",
        "rm \t -rf   /",
    ] {
        let guesses = Commands::of(line).guesses(line);
        assert!(guesses.iter().any(|guess| guess == "rm -rf /"), "{line:?}: {guesses:?}");
    }
}

/// PM-03: however much leads to a command, it is found, and not all of that is kept.
#[test]
fn much_that_leads_to_a_command_does_not_hide_it() {
    let line = "sudo ".repeat(50_000) + "rm -rf /";
    let guesses = Commands::of(&line).guesses(&line);
    assert!(guesses.iter().any(|guess| guess == "rm -rf /"));
    assert!(guesses.iter().map(String::len).sum::<usize>() < 5 * line.len());
}

/// PM-03: a line of a megabyte, whatever it is made of, costs what its length says: what is made of it stays within a
/// fixed number of times its length, and what did not fit makes it unclear.
#[test]
fn a_hostile_line_costs_what_its_length_says() {
    let fill = |piece: &str, length: usize| piece.repeat(length / piece.len());
    let mut lines: Vec<String> = ["$(", "eval "].map(|piece| fill(piece, 1 << 20)).into();
    for piece in [
        "(",
        ")",
        "$(",
        "`",
        "\"",
        "'",
        "{",
        "}",
        "{a,b}",
        "{a,b},",
        "((",
        "$((",
        "<(",
        ">(",
        "<<E\n",
        "<<E ",
        "[[ ",
        "${a:-",
        "${a",
        "$a",
        "a=",
        "a+=bbbbbbbb;",
        "a=$a$a;",
        "X=1234567 $X$X$X$X;",
        "a",
        "a ",
        "a;",
        "a|",
        "sudo ",
        "sudo -x ",
        "sudo --x ",
        "env -S ",
        "eval ",
        "sh -c ",
        "sh -c '",
        "! ",
        "find -exec ",
        "find . -exec a \\; ",
        "xargs ",
        "cd a;",
        "cd ..;",
        "cat a ",
        "*",
        "*/",
        "[",
        "[a",
        "cat *;",
        "~",
        "\\",
        "$'\\x",
        "#",
        "\n",
        "&>",
        "> a ",
        "-C ",
        "case a in b)",
        "for a in b;",
        "--a=b:c@d ",
    ] {
        let line = fill(piece, 1 << 13);
        lines.extend([format!("rm {line}"), format!("sh -c \"{line}\""), line]);
    }
    for line in lines {
        let guessed = Commands::of(&line).guess(&line);
        let start = &line[..line.len().min(32)];
        // What only leads to a command has an amount of its own.
        let most = 24 * line.len() + 4 * guess::MOST_LEADING;
        let made: usize = guessed.commands.iter().map(String::len).sum();
        assert!(made <= most, "{start:?}: {made}");
        let named: usize = guessed.files.iter().map(|file| file.path.len()).sum();
        assert!(named <= most, "{start:?}: {named}");
    }
}

proptest! {
    /// PM-03: whatever stands between two commands and ends the first one, the second is a part of its own, or the
    /// line is opaque.
    #[test]
    fn a_second_command_never_hides_in_the_first(
        before in "[ -~\n]{0,12}",
        middle in proptest::sample::select(vec![";", "&&", "||", "|", "&", "\n", "|&", ";;", "\n#'\n"]),
        after in "[ -~\n]{0,12}",
    ) {
        let line = format!("git status{middle}rm -rf / {before}{middle}{after}");
        let commands = Commands::of(&line);
        let seen = commands.parts.iter().any(|part| part.starts_with("rm -rf /"));
        prop_assert!(seen || commands.opaque.is_some(), "{:?} {:?}", line, commands);
    }

    /// PM-03: nothing of a line gets lost, and nothing makes it panic.
    #[test]
    fn what_is_not_opaque_is_kept_whole(line in "[ -~\n]{0,40}") {
        let commands = Commands::of(&line);
        let _ = commands.guesses(&line);
        if commands.opaque.is_none() {
            let is_kept = |letter: &char| !letter.is_whitespace() && !";|&\\".contains(*letter);
            let kept: String = commands.parts.concat().chars().filter(is_kept).collect();
            let all: String = line.chars().filter(is_kept).collect();
            prop_assert_eq!(kept, all);
        }
    }
}
