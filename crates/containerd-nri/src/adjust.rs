//! Builds a container's adjustment, and refuses what the runtime would refuse or misread.
use crate::messages::{
    ContainerAdjustment, KeyValue, LinuxContainerAdjustment, LinuxDevice, Mount, OptionalFileMode, OptionalUInt32,
};

/// How the protocol marks a key that is removed before it is set, which is how a plugin replaces what another one set.
const REMOVAL: char = '-';

/// An adjustment in the making.
#[derive(Clone, Debug, Default)]
pub struct Adjustment {
    made: ContainerAdjustment,
}

/// Why a part cannot be in an adjustment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdjustmentError {
    /// A name that is empty, holds `=` or NUL, or begins as a removal.
    #[error("{0:?} cannot be the name of an environment variable")]
    EnvName(String),
    /// The same variable twice.
    #[error("the environment variable {0} is set twice")]
    EnvTwice(String),
    /// A path that is not absolute.
    #[error("the path {0:?} in the container is not absolute")]
    Relative(String),
    /// The same mount destination twice.
    #[error("{0} is mounted twice")]
    MountTwice(String),
    /// The same device path twice.
    #[error("the device {0} is added twice")]
    DeviceTwice(String),
    /// A device type that is neither block, character nor FIFO.
    #[error("the device {path} has type {kind:?}; it must be b, c, u or p")]
    DeviceType {
        /// The device's path.
        path: String,
        /// What was given.
        kind: String,
    },
}

/// A device node in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Path in the container.
    pub path: String,
    /// `b`, `c`, `u` or `p`.
    pub kind: String,
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Mode bits; `None` leaves them to the runtime.
    pub file_mode: Option<u32>,
    /// Owner; `None` leaves it to the runtime.
    pub uid: Option<u32>,
    /// Group; `None` leaves it to the runtime.
    pub gid: Option<u32>,
}

impl Adjustment {
    /// An adjustment that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an environment variable.
    ///
    /// # Errors
    /// [`AdjustmentError::EnvName`], [`AdjustmentError::EnvTwice`].
    pub fn env(&mut self, name: &str, value: &str) -> Result<(), AdjustmentError> {
        if name.is_empty() || name.starts_with(REMOVAL) || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(AdjustmentError::EnvName(name.to_owned()));
        }
        if self.made.env.iter().any(|other| other.key == name) {
            return Err(AdjustmentError::EnvTwice(name.to_owned()));
        }
        self.made.env.push(KeyValue { key: name.to_owned(), value: value.to_owned(), ..Default::default() });
        Ok(())
    }

    /// Adds a mount; an empty `kind` means a bind mount.
    ///
    /// # Errors
    /// [`AdjustmentError::Relative`], [`AdjustmentError::MountTwice`].
    pub fn mount(
        &mut self,
        source: &str,
        destination: &str,
        kind: &str,
        options: &[String],
    ) -> Result<(), AdjustmentError> {
        absolute(destination)?;
        if self.made.mounts.iter().any(|other| other.destination == destination) {
            return Err(AdjustmentError::MountTwice(destination.to_owned()));
        }
        self.made.mounts.push(Mount {
            destination: destination.to_owned(),
            source: source.to_owned(),
            type_: if kind.is_empty() { "bind" } else { kind }.to_owned(),
            options: options.to_vec(),
            ..Default::default()
        });
        Ok(())
    }

    /// Adds a device node, and with it the right to use it.
    ///
    /// # Errors
    /// [`AdjustmentError::Relative`], [`AdjustmentError::DeviceTwice`], [`AdjustmentError::DeviceType`].
    pub fn device(&mut self, device: Device) -> Result<(), AdjustmentError> {
        absolute(&device.path)?;
        if !matches!(device.kind.as_str(), "b" | "c" | "u" | "p") {
            return Err(AdjustmentError::DeviceType { path: device.path, kind: device.kind });
        }
        let linux = self.made.linux.mut_or_insert_default();
        add_device(linux, device)
    }

    /// The message.
    #[must_use]
    pub fn into_message(self) -> ContainerAdjustment {
        self.made
    }
}

fn add_device(linux: &mut LinuxContainerAdjustment, device: Device) -> Result<(), AdjustmentError> {
    if linux.devices.iter().any(|other| other.path == device.path) {
        return Err(AdjustmentError::DeviceTwice(device.path));
    }
    let number = |value: Option<u32>| value.map(|value| OptionalUInt32 { value, ..Default::default() }).into();
    linux.devices.push(LinuxDevice {
        path: device.path,
        type_: device.kind,
        major: device.major,
        minor: device.minor,
        file_mode: device.file_mode.map(|value| OptionalFileMode { value, ..Default::default() }).into(),
        uid: number(device.uid),
        gid: number(device.gid),
        ..Default::default()
    });
    Ok(())
}

fn absolute(path: &str) -> Result<(), AdjustmentError> {
    if path.starts_with('/') && !path.contains('\0') { Ok(()) } else { Err(AdjustmentError::Relative(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_added() {
        let mut adjustment = Adjustment::new();
        adjustment.env("A", "1=2").unwrap();
        adjustment.mount("/host", "/in", "", &["ro".to_owned()]).unwrap();
        let device = Device { path: "/dev/x".into(), kind: "c".into(), major: 195, minor: 3, ..Device::default() };
        adjustment.device(Device { file_mode: Some(0o666), ..device }).unwrap();
        let message = adjustment.into_message();
        assert_eq!((message.env[0].key.as_str(), message.env[0].value.as_str()), ("A", "1=2"));
        assert_eq!((message.mounts[0].type_.as_str(), message.mounts[0].source.as_str()), ("bind", "/host"));
        let device = &message.linux.devices[0];
        assert_eq!((device.major, device.minor, device.file_mode.value), (195, 3, 0o666));
        assert!(device.uid.is_none());
    }

    #[test]
    fn refuses_what_the_runtime_would_refuse_or_misread() {
        let mut adjustment = Adjustment::new();
        for name in ["", "A=B", "-A", "A\0"] {
            assert_eq!(adjustment.env(name, ""), Err(AdjustmentError::EnvName(name.to_owned())));
        }
        adjustment.env("A", "").unwrap();
        assert!(matches!(adjustment.env("A", ""), Err(AdjustmentError::EnvTwice(_))));
        for path in ["", "in", "-/in"] {
            assert!(matches!(adjustment.mount("/h", path, "", &[]), Err(AdjustmentError::Relative(_))), "{path}");
        }
        adjustment.mount("/h", "/in", "", &[]).unwrap();
        assert!(matches!(adjustment.mount("/h", "/in", "", &[]), Err(AdjustmentError::MountTwice(_))));
        let device = |kind: &str| Device { path: "/dev/x".into(), kind: kind.into(), ..Device::default() };
        assert!(matches!(adjustment.device(device("x")), Err(AdjustmentError::DeviceType { .. })));
        adjustment.device(device("c")).unwrap();
        assert!(matches!(adjustment.device(device("c")), Err(AdjustmentError::DeviceTwice(_))));
    }
}
