//! What is beside the libraries of the driver's version: libraries with versions of their own, programs, firmware, configuration, sockets.
use super::folders::Folder;
use super::{DriverFiles, Profile, elf};
use crate::Sources;
use crate::root::Root;
use std::fs;
use std::path::{Path, PathBuf};

/// A socket of one of the driver's daemons. None is given unless it is asked for: a stale one hangs programs, and MPS changes what a share means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Socket {
    /// `nvidia-persistenced`.
    Persistenced,
    /// `nvidia-fabricmanager`.
    Fabricmanager,
    /// The folder of CUDA's Multi-Process Service.
    Mps,
}

impl Socket {
    fn paths(self) -> &'static [&'static str] {
        match self {
            Self::Persistenced => &["/run/nvidia-persistenced/socket", "/var/run/nvidia-persistenced/socket"],
            Self::Fabricmanager => &["/run/nvidia-fabricmanager/socket", "/var/run/nvidia-fabricmanager/socket"],
            Self::Mps => &["/tmp/nvidia-mps"],
        }
    }
}

/// Where programs are: as a package or the vendor's installer puts them, in Debian's folder behind its links, on single-folder systems.
const PROGRAM_FOLDERS: [&str; 8] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib/nvidia/current",
    "/bin",
    "/opt/bin",
    "/usr/local/bin",
    "/usr/local/nvidia/bin",
    "/usr/local/glibc/usr/bin",
];
/// Where the X server's modules are.
const X_FOLDERS: [&str; 6] = [
    "/usr/lib/xorg/modules/drivers",
    "/usr/lib64/xorg/modules/drivers",
    "/usr/lib/xorg/modules/extensions",
    "/usr/lib64/xorg/modules/extensions",
    "/usr/lib/nvidia/current",
    "/usr/lib/nvidia",
];
/// Where configuration is.
const CONFIG_FOLDERS: [&str; 4] = ["/etc", "/usr/local/share", "/usr/share", "/share"];
/// Configuration for computing: path below a configuration folder, folder in the container.
const COMPUTE_CONFIG: [(&str, &str); 1] = [("OpenCL/vendors/nvidia.icd", "/etc")];
/// Configuration for graphics.
const GRAPHICS_CONFIG: [(&str, &str); 12] = [
    ("glvnd/egl_vendor.d/10_nvidia.json", "/usr/share"),
    ("egl/egl_external_platform.d/15_nvidia_gbm.json", "/usr/share"),
    ("egl/egl_external_platform.d/10_nvidia_wayland.json", "/usr/share"),
    ("egl/egl_external_platform.d/09_nvidia_wayland2.json", "/usr/share"),
    ("egl/egl_external_platform.d/20_nvidia_xcb.json", "/usr/share"),
    ("egl/egl_external_platform.d/20_nvidia_xlib.json", "/usr/share"),
    ("nvidia/nvoptix.bin", "/usr/share"),
    ("vulkan/icd.d/nvidia_icd.json", "/etc"),
    ("vulkan/icd.d/nvidia_icd.x86_64.json", "/etc"),
    ("vulkan/icd.d/nvidia_icd.aarch64.json", "/etc"),
    ("vulkan/icd.d/nvidia_layers.json", "/etc"),
    ("vulkan/implicit_layer.d/nvidia_layers.json", "/etc"),
];
/// Configuration of the X server.
const X_CONFIG: [(&str, &str); 2] =
    [("X11/xorg.conf.d/10-nvidia.conf", "/usr/share"), ("X11/xorg.conf.d/nvidia-drm-outputclass.conf", "/usr/share")];

/// Adds everything that the profile asks for and that is there.
pub(super) fn add(sources: &Sources, root: &Root, folders: &[Folder], version: &str, files: &mut DriverFiles) {
    let profile = sources.profile;
    for start in profile.own_versions() {
        own_version(root, folders, start, files);
    }
    let real = |path: &str| root.resolve(Path::new(path)).map(|real| root.host(&real));
    for program in profile.programs() {
        if let Some(host) = PROGRAM_FOLDERS.iter().find_map(|folder| real(&format!("{folder}/{program}"))) {
            files.others.insert(format!("/usr/bin/{program}"), host);
        }
    }
    if let Some(host) = firmware(sources, root, version) {
        files.others.insert(format!("/lib/firmware/nvidia/{version}"), host);
    }
    let mut config = COMPUTE_CONFIG.to_vec();
    if profile >= Profile::Graphics {
        config.extend(GRAPHICS_CONFIG);
        gbm(root, folders, files);
    }
    if profile == Profile::Full {
        config.extend(X_CONFIG);
        x_modules(root, version, files);
    }
    for (name, to) in config {
        if let Some(host) = CONFIG_FOLDERS.iter().find_map(|folder| real(&format!("{folder}/{name}"))) {
            files.others.insert(format!("{to}/{name}"), host);
        }
    }
    for socket in &sources.sockets {
        match socket.paths().iter().find_map(|path| real(path)) {
            Some(host) => {
                files.sockets.insert(socket.paths()[0].to_owned(), host);
            }
            None => files.warnings.push(format!("{} was asked for and is not there", socket.paths()[0])),
        }
    }
}

/// A library with a version of its own, under its soname.
fn own_version(root: &Root, folders: &[Folder], start: &str, files: &mut DriverFiles) {
    for folder in folders {
        // Sorted, so the shortest name comes first: the link by which the loader asks, which leads to the version in use.
        for name in folder.names.iter().filter(|name| name.starts_with(start)) {
            let Some(host) = folder.file(root, name) else { continue };
            if let Some(object) = elf::read(&host) {
                files.libraries.entry(object.soname).or_insert(host);
                return;
            }
        }
    }
}

/// Mesa's loader for GBM asks for the driver under this name; it is the allocator.
fn gbm(root: &Root, folders: &[Folder], files: &mut DriverFiles) {
    let name = "nvidia-drm_gbm.so";
    let allocator = files.libraries.get("libnvidia-allocator.so.1");
    let there = folders.iter().find_map(|folder| folder.file(root, name));
    if let Some(host) = there.filter(|host| allocator == Some(host)) {
        files.libraries.insert(format!("gbm/{name}"), host);
    }
}

/// The X server's driver and its GLX module. They have no soname; the second carries the version in its name.
fn x_modules(root: &Root, version: &str, files: &mut DriverFiles) {
    let glx = format!("libglxserver_nvidia.so.{version}");
    let modules = [("nvidia_drv.so", "drivers/nvidia_drv.so"), (glx.as_str(), "extensions/libglxserver_nvidia.so")];
    for (file, to) in modules {
        let real = |folder: &&str| root.resolve(&Path::new(folder).join(file)).map(|real| root.host(&real));
        if let Some(host) = X_FOLDERS.iter().find_map(real) {
            for lib in ["/usr/lib", "/usr/lib64"] {
                files.others.insert(format!("{lib}/xorg/modules/{to}"), host.clone());
            }
        }
    }
}

/// The folder of the version's firmware, in the order in which the kernel looks. What is in it changes with the version (`gsp_*.bin`, since 615 also
/// `ucodes_*.bin`), so the whole folder is given.
fn firmware(sources: &Sources, root: &Root, version: &str) -> Option<PathBuf> {
    let custom = fs::read_to_string(sources.sys_root.join("module/firmware_class/parameters/path")).unwrap_or_default();
    let release = fs::read_to_string(sources.proc_root.join("sys/kernel/osrelease")).unwrap_or_default();
    let (custom, release) = (custom.trim(), release.trim());
    let mut places = Vec::new();
    if !custom.is_empty() {
        // A host path; of a driver container it begins with the driver root.
        let inside = Path::new(custom).strip_prefix(&sources.driver_root).unwrap_or(Path::new(custom));
        places.push(Path::new("/").join(inside));
    }
    for lib in ["/lib/firmware", "/usr/lib/firmware"] {
        let lib = Path::new(lib);
        places.extend([lib.join("updates").join(release), lib.join("updates"), lib.join(release), lib.to_owned()]);
    }
    places.iter().find_map(|place| {
        let host = root.host(&root.resolve(&place.join("nvidia").join(version))?);
        let mut entries = fs::read_dir(&host).ok()?.flatten();
        entries.any(|entry| entry.path().extension().is_some_and(|end| end == "bin")).then_some(host)
    })
}
