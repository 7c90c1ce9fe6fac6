//! Which of the driver's files a container gets. Each profile holds the one before it.

/// What containers do with the card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// CUDA, OpenCL and NVML.
    #[default]
    Compute,
    /// Also OpenGL, Vulkan, EGL, video and ray tracing, and the card's DRM nodes.
    Graphics,
    /// Everything of the driver's version, also the X server's modules and the driver's daemons.
    Full,
}

/// The libraries that computing needs, without version. A driver ships those of its time; only the first two are in all.
const COMPUTE: [&str; 12] = [
    "libcuda",
    "libnvidia-ml",
    "libnvidia-ptxjitcompiler",
    "libnvidia-nvvm",
    "libnvidia-compiler",
    "libnvidia-gpucomp",
    "libcudadebugger",
    "libnvidia-cfg",
    "libnvidia-opencl",
    "libnvidia-allocator",
    "libnvidia-pkcs11",
    "libnvidia-pkcs11-openssl3",
];
/// The libraries of graphics and video beside those of computing.
const GRAPHICS: [&str; 22] = [
    "libEGL_nvidia",
    "libGLESv1_CM_nvidia",
    "libGLESv2_nvidia",
    "libGLX_nvidia",
    "libnvcuvid",
    "libnvidia-eglcore",
    "libnvidia-encode",
    "libnvidia-fbc",
    "libnvidia-glcore",
    "libnvidia-glsi",
    "libnvidia-glvkspirv",
    "libnvidia-ngx",
    "libnvidia-opticalflow",
    "libnvidia-present",
    "libnvidia-rtcore",
    "libnvidia-sandboxutils",
    "libnvidia-tileiras",
    "libnvidia-tls",
    "libnvidia-vulkan-producer",
    "libnvidia-wayland-client",
    "libnvoptix",
    "libvdpau_nvidia",
];

impl Profile {
    /// Whether a library of the driver's version belongs to the profile.
    pub(super) fn wants(self, stem: &str) -> bool {
        match self {
            Self::Compute => COMPUTE.contains(&stem),
            Self::Graphics => COMPUTE.contains(&stem) || GRAPHICS.contains(&stem),
            // The X server's module is no library and has its own folder.
            Self::Full => stem.starts_with("lib") && stem != "libglxserver_nvidia",
        }
    }

    /// The beginnings of libraries that come with a version of their own.
    pub(super) fn own_versions(self) -> &'static [&'static str] {
        // The order of both is that of use: the first is CUDA's, the others are EGL's platforms.
        const ALL: [&str; 6] = [
            "libnvidia-nvvm70.so.",
            "libnvidia-egl-gbm.so.",
            "libnvidia-egl-wayland.so.",
            "libnvidia-egl-wayland2.so.",
            "libnvidia-egl-xcb.so.",
            "libnvidia-egl-xlib.so.",
        ];
        if self == Self::Compute { &ALL[..1] } else { &ALL }
    }

    /// The programs.
    pub(super) fn programs(self) -> &'static [&'static str] {
        const ALL: [&str; 7] = [
            "nvidia-smi",
            "nvidia-debugdump",
            "nvidia-persistenced",
            "nvidia-cuda-mps-control",
            "nvidia-cuda-mps-server",
            "nvidia-imex",
            "nvidia-imex-ctl",
        ];
        if self == Self::Full { &ALL } else { &ALL[..2] }
    }
}

/// Whether a library that another one needs is the driver's own, so that nobody else brings it.
pub(super) fn of_driver(needed: &str, version: &str) -> bool {
    let stem = needed.split_once(".so").map_or(needed, |(stem, _)| stem);
    needed.ends_with(version)
        || COMPUTE.contains(&stem)
        || GRAPHICS.contains(&stem)
        || stem.starts_with("libnvidia-")
        || stem.ends_with("_nvidia")
}
