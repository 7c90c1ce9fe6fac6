//! Container images, made here: one layer of files, as an OCI layout in a tar file that `ctr` imports. Nothing comes from a registry of images.
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A static busybox alone; also what pods' sandboxes run.
pub const BUSYBOX: &str = "docker.io/local/busybox:1";
/// A glibc root with Python and the GPU client programs, busybox, and the tests' own in `/opt`: a CUDA client, and one that tells what it sees.
pub const GUEST: &str = "docker.io/local/guest:1";

/// The commands that busybox serves in the images.
const APPLETS: [&str; 8] = ["sh", "sleep", "env", "cat", "touch", "ls", "true", "id"];

/// Writes both images into `dir`, and returns their files.
///
/// # Errors
/// Where a part is missing or a program fails.
pub fn make(dir: &Path, cache: &Path) -> Result<Vec<PathBuf>> {
    let busybox = cache.join("busybox/bin/busybox");
    let small = dir.join("busybox");
    add_busybox(&small, &busybox)?;
    let guest = dir.join("guest");
    add_to_guest(&guest, cache)?;
    Ok(vec![
        layout(dir, "busybox", BUSYBOX, &[&small])?,
        layout(dir, "guest", GUEST, &[&cache.join("guest-root"), &guest])?,
    ])
}

/// Writes into `root` what the guest image has beside the fetched root: busybox and the tests' own programs.
///
/// # Errors
/// Where a part is missing.
pub fn add_to_guest(root: &Path, cache: &Path) -> Result<()> {
    add_busybox(root, &cache.join("busybox/bin/busybox"))?;
    fs::create_dir_all(root.join("opt"))?;
    fs::write(root.join("opt/client.py"), include_str!("../guest/client.py"))?;
    fs::write(root.join("opt/look.py"), include_str!("../guest/look.py"))?;
    Ok(())
}

fn add_busybox(root: &Path, busybox: &Path) -> Result<()> {
    let bin = root.join("usr/local/bin");
    fs::create_dir_all(&bin)?;
    fs::create_dir_all(root.join("tmp"))?;
    fs::copy(busybox, bin.join("busybox")).with_context(|| format!("cannot copy {}", busybox.display()))?;
    for applet in APPLETS {
        symlink("busybox", bin.join(applet))?;
    }
    Ok(())
}

/// An OCI image layout of one layer that holds all `roots`, one over the other.
fn layout(dir: &Path, file: &str, name: &str, roots: &[&Path]) -> Result<PathBuf> {
    let layout = dir.join(format!("{file}.oci"));
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let layer = dir.join(format!("{file}.layer"));
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(&layer).args(["--owner=0", "--group=0", "--numeric-owner"]);
    for root in roots {
        tar.arg("--directory").arg(root).arg(".");
    }
    run(&mut tar)?;
    let (layer_digest, layer_size) = blob(&blobs, &layer)?;
    let config = serde_json::json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Cmd": ["/usr/local/bin/sleep", "1000000"]},
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
    });
    let (config_digest, config_size) = json_blob(&blobs, dir, &config)?;
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config_digest, "size": config_size},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer_digest, "size": layer_size}],
    });
    let (manifest_digest, manifest_size) = json_blob(&blobs, dir, &manifest)?;
    let index = serde_json::json!({
        "schemaVersion": 2,
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": manifest_digest,
            "size": manifest_size,
            "annotations": {"io.containerd.image.name": name},
        }],
    });
    fs::write(layout.join("index.json"), serde_json::to_vec(&index)?)?;
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let image = dir.join(format!("{file}.tar"));
    run(Command::new("tar").arg("--create").arg("--file").arg(&image).arg("--directory").arg(&layout).arg("."))?;
    fs::remove_dir_all(&layout)?;
    Ok(image)
}

fn json_blob(blobs: &Path, dir: &Path, value: &serde_json::Value) -> Result<(String, u64)> {
    let file = dir.join("blob.json");
    fs::write(&file, serde_json::to_vec(value)?)?;
    blob(blobs, &file)
}

/// Moves a file among the blobs, under its digest.
fn blob(blobs: &Path, file: &Path) -> Result<(String, u64)> {
    let size = fs::metadata(file)?.len();
    let output = Command::new("sha256sum").arg(file).output().context("cannot run sha256sum")?;
    ensure!(output.status.success(), "sha256sum {}: {}", file.display(), output.status);
    let text = String::from_utf8(output.stdout)?;
    let digest = text.split_whitespace().next().context("sha256sum printed nothing")?;
    fs::rename(file, blobs.join(digest))?;
    Ok((format!("sha256:{digest}"), size))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
