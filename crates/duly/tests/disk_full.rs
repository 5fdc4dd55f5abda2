//! A full disk: no jobs are made, what runs may end, reads work, and when there is room again all is
//! as before, without a restart. On a small file system of its own.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{PATIENCE, Server};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const HINT: &str = "this test mounts a small file system: run it as root in a place that permits \
                    mount (apt-get install e2fsprogs mount)";

/// A file system of 32 MiB, gone with the test.
struct SmallDisk {
    place: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// In a file, as a disk would be; where loop devices are not permitted, in memory.
    fn mount() -> SmallDisk {
        let folder = tempfile::tempdir().expect("a folder");
        let (image, place) = (folder.path().join("image"), folder.path().join("mount"));
        std::fs::create_dir(&place).expect("a folder");
        File::create(&image).and_then(|file| file.set_len(32 << 20)).expect("an image");
        let run = |program: &str, args: &[&str]| {
            let status = Command::new(program).args(args).output();
            status.is_ok_and(|output| output.status.success())
        };
        let (image, at) = (image.to_string_lossy(), place.to_string_lossy());
        let looped = run("mkfs.ext4", &["-q", "-F", "-m", "0", &image])
            && run("mount", &["-o", "loop", &image, &at]);
        if !looped {
            assert!(run("mount", &["-t", "tmpfs", "-o", "size=32m", "tmpfs", &at]), "{HINT}");
        }
        SmallDisk { place, _folder: folder }
    }

    /// Takes all the room that is left; whoever holds the answer holds the room.
    fn fill(&self) -> PathBuf {
        let path = self.place.join("filler");
        let mut file = File::create(&path).expect("a file");
        for size in [64 << 10, 4 << 10, 512, 1] {
            let block = vec![7; size];
            while file.write_all(&block).is_ok() {}
        }
        let _ = file.sync_all();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

fn job(server: &Server, body: &Value) -> (u16, Value) {
    let reply = server.post("/v1/jobs", body);
    (reply.status, serde_json::from_str(&reply.text).unwrap_or_default())
}

fn large() -> Value {
    let payload = "x".repeat(100_000);
    json!({"target": {"worker": {"kind": "k"}}, "queue": "large", "payload": payload,
           "schedule": {"delay": "1h"}})
}

fn start(data: &Path) -> Server {
    Server::start_with(data, &[], &["--reserve", "6MB"])
}

#[test]
fn a_full_disk_refuses_jobs_lets_work_end_and_heals_without_a_restart() {
    let disk = SmallDisk::mount();
    let data = disk.place.join("data");
    let server = start(&data);
    let mut answered: Vec<String> = Vec::new();
    let mut make = |server: &Server, body: &Value| {
        let (status, made) = job(server, body);
        if status == 202 {
            answered.push(made["id"].as_str().expect("an id").to_string());
        }
        (status, made)
    };
    for _ in 0..4 {
        let (status, _) =
            make(&server, &json!({"target": {"worker": {"kind": "k"}}, "queue": "w"}));
        assert_eq!(status, 202);
    }
    let (_, waits) = make(&server, &large());
    let claim = json!({"worker": "me", "queues": ["w"], "max": 3, "lease": "1h"});
    let claimed = server.post("/v1/work/claim", &claim).json()["runs"].clone();
    assert_eq!(claimed.as_array().map(Vec::len), Some(3));

    let filler = disk.fill();
    let refused = (0..400).find_map(|_| match make(&server, &large()) {
        (202, _) => None,
        other => Some(other),
    });
    let (status, problem) = refused.expect("the disk is full before that");
    assert_eq!((status, &problem["code"]), (507, &json!("store_full")), "{problem}");

    // What ends work is taken: settles, cancels, also of what waits.
    for run in claimed.as_array().expect("runs") {
        let settle = json!({"worker": "me", "runs": [
            {"run_id": run["run_id"], "token": run["token"], "outcome": "succeeded"}]});
        let reply = server.post("/v1/work/settle", &settle);
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.json()["results"][0]["run_status"], "succeeded");
    }
    let path = format!("/v1/jobs/{}", waits["id"].as_str().expect("an id"));
    assert_eq!(server.ask("DELETE", &path, "").status, 200);
    assert_eq!(server.ask("GET", &path, "").json()["status"], "cancelled");
    // A claim is not a job either.
    let claim = json!({"worker": "me", "queues": ["w"], "max": 1, "wait": "0s"});
    let reply = server.post("/v1/work/claim", &claim);
    assert_eq!(reply.json()["runs"].as_array().map(Vec::len), Some(1), "{}", reply.text);
    assert_eq!(make(&server, &large()).0, 507, "still no jobs");

    // Room is made, and the same process goes on.
    std::fs::remove_file(&filler).expect("removed");
    let until = Instant::now() + PATIENCE;
    while make(&server, &large()).0 != 202 {
        assert!(Instant::now() < until, "it does not heal");
        std::thread::sleep(Duration::from_millis(50));
    }
    for life in 0..2 {
        let server = if life == 0 { &server } else { &start(&data) };
        for id in &answered {
            let reply = server.ask("GET", &format!("/v1/jobs/{id}"), "");
            assert_eq!(reply.status, 200, "life {life}: {id}: {}", reply.text);
        }
        server.signal("-KILL");
        let pid = server.child.id();
        while Path::new(&format!("/proc/{pid}/cmdline")).metadata().is_ok_and(|_| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|text| !text.is_empty())
        }) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
