//! Takes the built dashboard (`web/dist`, made by `make web`) into the binary. Without it the placeholder
//! page is taken, so that nobody needs Node to build duly. Compressed forms lie beside their file, as
//! `.br` and `.gz`: they were made when the dashboard was built.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Far more than the dashboard has; a folder that is not one shall not end up in the binary.
const FILES_MAX: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let dist = here.join("../../web/dist");
    let placeholder = here.join("src/dashboard/placeholder.html");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", placeholder.display());
    // The folder is always there (it holds a .gitignore), and a folder is looked through: cargo notices
    // a built dashboard, and a removed one.
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut text = String::from("pub static FILES: &[File] = &[\n");
    if dist.join("index.html").is_file() {
        let mut names = BTreeSet::new();
        find(&dist, "", &mut names)?;
        if names.len() > FILES_MAX {
            return Err(format!("web/dist has more than {FILES_MAX} files").into());
        }
        for name in &names {
            if name.ends_with(".br") || name.ends_with(".gz") {
                continue;
            }
            let beside = |ending: &str| {
                names
                    .contains(&format!("{name}{ending}"))
                    .then(|| dist.join(format!("{name}{ending}")))
            };
            write_file(&mut text, name, &dist.join(name), beside(".br"), beside(".gz"))?;
        }
    } else {
        write_file(&mut text, "index.html", &placeholder, None, None)?;
    }
    text.push_str("];\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("dashboard_files.rs"), text)?;
    Ok(())
}

fn find(folder: &Path, before: &str, names: &mut BTreeSet<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| "a file's name is not UTF-8")?;
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            find(&entry.path(), &format!("{before}{name}/"), names)?;
        } else {
            names.insert(format!("{before}{name}"));
        }
    }
    Ok(())
}

fn write_file(
    text: &mut String,
    name: &str,
    file: &Path,
    br: Option<PathBuf>,
    gzip: Option<PathBuf>,
) -> Result<(), Box<dyn Error>> {
    let include = |path: &Path| -> Result<String, Box<dyn Error>> {
        Ok(format!("include_bytes!({:?})", fs::canonicalize(path)?))
    };
    let option = |path: Option<PathBuf>| -> Result<String, Box<dyn Error>> {
        Ok(match path {
            Some(path) => format!("Some({})", include(&path)?),
            None => "None".to_string(),
        })
    };
    let mut hash = std::hash::DefaultHasher::new();
    hash.write(&fs::read(file)?);
    let tag = format!("{:016x}", hash.finish());
    let (plain, br, gzip) = (include(file)?, option(br)?, option(gzip)?);
    writeln!(
        text,
        "    File {{ path: {:?}, tag: {tag:?}, plain: {plain}, br: {br}, gzip: {gzip} }},",
        format!("/{name}")
    )?;
    Ok(())
}
