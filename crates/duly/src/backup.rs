//! `duly backup` and `duly restore`: the file is copied here, beside a running server or without one.

use crate::failure::{EXIT_REFUSED, Failure};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// Where the copy goes: a file that does not exist, or a folder
    file: PathBuf,
    /// The server's data folder; the server may run meanwhile
    #[arg(long, value_name = "DIR", env = "DULY_DATA", default_value = "./duly-data")]
    data: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// A copy that `duly backup` made
    file: PathBuf,
    /// The data folder that it becomes; no server may use it
    #[arg(long, value_name = "DIR", env = "DULY_DATA", default_value = "./duly-data")]
    data: PathBuf,
    /// Put aside the database that is there
    #[arg(long)]
    replace: bool,
    /// At least this incarnation: larger than that of any other copy that was ever started
    #[arg(long, value_name = "NUMBER")]
    incarnation: Option<u64>,
}

pub fn backup(args: &BackupArgs) -> Result<String, Failure> {
    let file = match args.file.is_dir() {
        true => {
            let now = wire::timestamp::format(crate::clock::now().micros());
            args.file.join(format!("duly-{}.db", now.replace([':', '.'], "")))
        }
        false => args.file.clone(),
    };
    let bytes = store_sqlite::backup(&args.data, &file).map_err(|error| {
        let message = format!("{} cannot be copied: {error}", args.data.display());
        let help = "duly backup ANOTHER-FILE --data DIR".to_string();
        Failure { exit: EXIT_REFUSED, help, ..Failure::failed(message) }
    })?;
    Ok(format!(
        "{} ({bytes} bytes)\nThe signing secrets are not in it: keep {} and {} as well.\n",
        file.display(),
        crate::vault::path(&args.data).display(),
        crate::seal::MasterKey::path(&args.data).display()
    ))
}

pub fn restore(args: &RestoreArgs) -> Result<String, Failure> {
    if !args.file.is_file() {
        let message = format!("{} is not a file", args.file.display());
        return Err(Failure { help: "duly backup --help".to_string(), ..Failure::failed(message) });
    }
    let done = store_sqlite::restore(&args.file, &args.data, args.incarnation, args.replace);
    let done = done.map_err(|error| {
        let message = format!("{} cannot be restored: {error}", args.file.display());
        let help = "duly restore FILE --data ANOTHER-FOLDER, or --replace".to_string();
        Failure { exit: EXIT_REFUSED, help, ..Failure::failed(message) }
    })?;
    let mut text =
        format!("{} is restored, incarnation {}.\n", args.data.display(), done.incarnation);
    if let Some(former) = &done.former {
        text.push_str(&format!("The database that was there is {}.\n", former.display()));
    }
    text.push_str(&next(&args.data));
    Ok(text)
}

fn next(data: &Path) -> String {
    let data = data.display();
    format!(
        "It keeps what is sent and dispatches nothing. When the original is over for good:\n  \
         duly serve --data {data} --takeover\n"
    )
}
