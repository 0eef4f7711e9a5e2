//! The scripts of the gate: the one that runs the README's commands, tested on faulty documents,
//! the one that times the steps, and the one that tests changed packages.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use crate::program::root;

/// A folder with one of our scripts, as a working copy.
fn beside(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("scripts")).unwrap();
    let path = Path::new("scripts").join(script);
    std::fs::copy(root().join(&path), folder.path().join(path)).unwrap();
    folder
}

/// Runs the blocks of a document, which need these ports, in a small repository.
fn run(document: &str, ports: &str) -> (bool, String) {
    let folder = beside("readme");
    let git = Command::new("git").args(["init", "--quiet"]).arg(folder.path()).status();
    assert!(git.unwrap().success());
    std::fs::write(folder.path().join("README.md"), document).unwrap();
    std::fs::write(folder.path().join(".gitignore"), "/target\n").unwrap();
    let output = Command::new(folder.path().join("scripts/readme"))
        .env("README_PORTS", ports)
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    assert!(!folder.path().join("target/readme").exists(), "the folder is removed");
    (output.status.success(), said(&output))
}

fn said(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn blocks_run_as_scripts_in_one_folder() {
    let document = "```sh\nmake test    # all of it\n```\n```toml\nnot = \"run\"\n```\n\
                    ```sh\ntest -f .gitignore && test -d target && test ! -d .git\n\
                    echo made > by-the-first\n```\n\
                    ```sh\ncat by-the-first\nsleep 60 & pid=$!\nkill $pid && ! wait $pid\n```\n\
                    ```sh\ntest target/release -ef target/debug\ncargo version --release\n```\n";
    let (is_good, said) = run(document, "");
    assert!(is_good, "{said}");
    assert_eq!(said.matches(": ran in ").count(), 3, "{said}");
    assert!(said.contains("README.md:2: not run: it runs this script"), "{said}");
}

#[test]
fn what_goes_wrong_in_a_block_is_noticed() {
    let check = |document: &str, ports: &str, wanted: &[&str]| {
        let (is_good, said) = run(document, ports);
        assert!(!is_good, "{said}");
        for wanted in wanted {
            assert!(said.contains(wanted), "{wanted} in {said}");
        }
    };
    check("```sh\necho one\nfalse\necho two\n```\n", "", &["one", "README.md:2: exit code 1"]);
    check("\n```sh\ntrue\n```\n```sh\ncat none | true\n```\n", "", &["README.md:6: exit code"]);
    check("```sh\necho $undefined\n```\n", "", &["undefined: unbound variable"]);
    let left = ["README.md:2: still running when the block ended:", "sleep"];
    // A shell that has forked is still called `bash` until it runs the command.
    let runs = "until grep -q sleep /proc/$!/comm; do :; done";
    check(&format!("```sh\nsleep 60 &\n{runs}\n```\n"), "", &left);
    check("Nothing to run.\n", "", &["has no block of shell"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check("```sh\ntrue\n```\n", &port, &["README.md:2: port", "is in use", &port]);
}

#[test]
fn the_gate_prints_the_time_of_each_step() {
    let folder = beside("steps");
    std::fs::write(folder.path().join("Makefile"), "good:\n\ttrue\nbad:\n\tfalse\n").unwrap();
    let steps = |targets: &[&str]| {
        let output =
            Command::new(folder.path().join("scripts/steps")).args(targets).output().unwrap();
        let lines: Vec<_> = said(&output).lines().map(str::to_owned).collect();
        let told = lines.into_iter().filter(|line| line.starts_with("step ")).count();
        (output.status.success(), told)
    };
    // Each step's time is printed as it ends, and again at the end.
    assert_eq!(steps(&["good"]), (true, 2));
    assert_eq!(steps(&["good", "good"]), (true, 4));
    assert_eq!(steps(&["bad", "good"]), (false, 2));
}

#[test]
fn unit_tests_of_what_changed_run_alone() {
    let folder = beside("unit-changed");
    let write = |file: &str, text: &str| {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    let command = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).current_dir(folder.path()).env_remove("CARGO_TARGET_DIR");
        let output = command.output().unwrap();
        (output.status.success(), said(&output))
    };
    write(".gitignore", "target\n");
    write("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n");
    for name in ["left-hand", "right-hand"] {
        let package = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
        write(&format!("crates/{name}/Cargo.toml"), &package);
        write(&format!("crates/{name}/src/lib.rs"), "#[test]\nfn holds() {}\n");
    }
    let lock = command("cargo", &["generate-lockfile", "--offline"]);
    assert!(lock.0, "{}", lock.1);
    let author = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let commit = [&author[..], &["commit", "--quiet", "--message", "first"]].concat();
    for args in [&["init", "--quiet", "--initial-branch", "main"][..], &["add", "."], &commit] {
        let (is_good, said) = command("git", args);
        assert!(is_good, "{said}");
    }
    let (is_good, said) = command("scripts/unit-changed", &[]);
    assert!(is_good && said.contains("no package differs"), "{said}");
    // An untracked file counts.
    write("crates/right-hand/src/new.rs", "");
    let (is_good, said) = command("scripts/unit-changed", &[]);
    assert!(is_good && said.contains("unit tests of right-hand:"), "{said}");
    assert_eq!(
        (said.matches("1 passed").count(), said.contains("left-hand:")),
        (1, false),
        "{said}"
    );
    write("crates/right-hand/src/lib.rs", "#[test]\nfn fails() { panic!() }\n");
    let (is_good, said) = command("scripts/unit-changed", &[]);
    assert!(!is_good && said.contains("1 failed"), "{said}");
}

/// Small pictures load quickly and keep clones small.
#[test]
fn pictures_are_there_and_small() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let pictures: Vec<_> = links.filter(|link| link.starts_with("docs/images/")).collect();
    assert_eq!(pictures.len(), 2, "{pictures:?}");
    for picture in pictures {
        let drawn = std::fs::read_to_string(root().join(picture)).unwrap();
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"), "{picture}");
        assert!(drawn.len() < 64 * 1024, "{picture}: {} bytes", drawn.len());
        // The picture must not show warnings of the run.
        assert!(!drawn.contains("WARN") && !drawn.contains("ERROR"), "{picture}");
    }
}
