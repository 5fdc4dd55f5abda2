//! `duly job edit`: the definition in your editor, or a patch on the command line. Sent with the version
//! that was read, so that nobody's change in between is lost.

use crate::failure::{EXIT_USAGE, Failure};
use crate::job::{Out, path};
use crate::show;
use serde_json::{Map, Value};
use std::io::Write;
use std::process::Command;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The id or the name
    job: String,
    /// A merge patch instead of the editor, such as '{"priority": 9}'
    #[arg(long, value_name = "JSON")]
    patch: Option<String>,
    #[command(flatten)]
    out: Out,
}

/// What a person wrote, of what the server shows.
pub const DEFINITION: [&str; 16] = [
    "owner",
    "tags",
    "schedule",
    "target",
    "payload",
    "payload_base64",
    "content_type",
    "queue",
    "priority",
    "group",
    "retry",
    "timeout",
    "start_within",
    "finish_within",
    "overlap",
    "catch_up",
];

pub fn run(args: &Args) -> Result<String, Failure> {
    let path = path(&args.job, "")?;
    let found = show::parsed(&args.out.server.get(&path)?)?;
    let version = format!("\"{}\"", found["version"]);
    let header = [("if-match", version.as_str())];
    if let Some(patch) = &args.patch {
        let text = args.out.server.send("PATCH", &path, Some(patch.clone()), &header)?;
        return args.out.one(&text);
    }
    let before = definition(&found);
    let edited = edit(&format!("{:#}\n", Value::Object(before.clone())))?;
    let after: Value = serde_json::from_str(&edited).map_err(|error| Failure {
        exit: EXIT_USAGE,
        message: format!("what you wrote is not JSON: {error}; nothing was changed"),
        help: format!("duly job edit {}", args.job),
    })?;
    if after == Value::Object(before) {
        return Ok("nothing was changed\n".to_string());
    }
    let text = args.out.server.send("PUT", &path, Some(after.to_string()), &header)?;
    args.out.one(&text)
}

pub fn definition(found: &Value) -> Map<String, Value> {
    let fields = DEFINITION.iter().filter(|field| !found[**field].is_null());
    fields.map(|field| (field.to_string(), found[*field].clone())).collect()
}

fn edit(text: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("no editor: {error}"));
    let path = std::env::temp_dir().join(format!("duly-edit-{}.json", std::process::id()));
    // Only its owner may read it: a payload may be private.
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    options.open(&path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)?;
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR"));
    let editor = editor.unwrap_or_else(|_| "vi".to_string());
    let ended =
        Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(&path).status();
    let edited = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    match ended.map_err(failed)?.success() {
        true => edited.map_err(failed),
        false => Err(Failure {
            help: "EDITOR=nano duly job edit …".to_string(),
            ..Failure::failed(format!("{editor} ended badly; nothing was changed"))
        }),
    }
}
