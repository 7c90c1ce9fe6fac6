//! Driver roots in the shape of other distributions, made of libraries with real sonames: what is found, and nothing of another word size.
use crate::node::{Node, TRIPLET, VERSION};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A root that holds the driver as a distribution lays it out.
struct Layout {
    name: &'static str,
    /// Where the libraries are, below the root.
    libraries: String,
    /// Where the programs are.
    programs: &'static str,
    /// Links as the distribution has them: place, target.
    links: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
}

fn layouts() -> Vec<Layout> {
    let usr_merge = &[("lib", "usr/lib"), ("lib64", "usr/lib64"), ("bin", "usr/bin")][..];
    let plain = |name, libraries: &str, programs, links| Layout {
        name,
        libraries: libraries.to_owned(),
        programs,
        links,
        flags: &[],
    };
    vec![
        plain("Ubuntu", &format!("usr/lib/{TRIPLET}"), "usr/bin", usr_merge),
        plain("RHEL", "usr/lib64", "usr/bin", usr_merge),
        plain("Arch", "usr/lib", "usr/bin", &[("lib64", "usr/lib"), ("usr/lib64", "lib"), ("lib", "usr/lib")]),
        plain("Talos", "usr/local/glibc/usr/lib", "usr/local/bin", &[]),
        plain("Container-Optimized OS", "lib64", "bin", &[]),
        // /run/opengl-driver: one folder, whose files are links into the store.
        plain("NixOS", "lib", "bin", &[]),
        Layout {
            flags: &["--library-search-path", "/store/abc-nvidia/lib"],
            ..plain("a store", "store/abc-nvidia/lib", "bin", &[])
        },
    ]
}

#[test]
fn every_layout_gives_the_same_container() {
    let mut first: Option<(BTreeSet<String>, &str)> = None;
    for layout in layouts() {
        let Some(mut node) = Node::new() else { return };
        let debian = node.driver.join("usr/lib").join(TRIPLET).join("nvidia/current");
        node.driver = node.path(layout.name);
        let (libraries, programs) = (node.driver.join(&layout.libraries), node.driver.join(layout.programs));
        fs::create_dir_all(&libraries).unwrap();
        fs::create_dir_all(&programs).unwrap();
        for (place, target) in layout.links {
            let place = node.driver.join(place);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            symlink(target, place).unwrap();
        }
        for name in ["libcuda", "libnvidia-ml"] {
            let file = format!("{name}.so.{VERSION}");
            fs::copy(debian.join(&file), libraries.join(&file)).unwrap();
            symlink(&file, libraries.join(format!("{name}.so.1"))).unwrap();
            symlink(format!("{name}.so.1"), libraries.join(format!("{name}.so"))).unwrap();
        }
        // 32 bit beside 64 bit, as multilib hosts have them, and a driver of before.
        let narrow = node.driver.join("usr/lib/i386-linux-gnu");
        for folder in [&narrow, &libraries] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("libcuda.so.470.57.02"), elf32()).unwrap();
        }
        fs::write(narrow.join(format!("libcuda.so.{VERSION}")), elf32()).unwrap();
        fs::write(programs.join("nvidia-smi"), "").unwrap();
        let (code, said) = node.run(layout.flags);
        assert_eq!(code, 0, "{}: {said}", layout.name);
        let mounts = node.read().container_edits.mounts;
        for mount in &mounts {
            assert!(
                !mount.host_path.contains("i386") && !mount.host_path.contains("470"),
                "{}: {mount:?}",
                layout.name
            );
            assert!(Path::new(&mount.host_path).is_file(), "{}: {mount:?}", layout.name);
        }
        let paths: BTreeSet<String> = mounts.into_iter().map(|mount| mount.container_path).collect();
        match &first {
            None => first = Some((paths, layout.name)),
            Some((right, name)) => assert_eq!(&paths, right, "{} and {name}", layout.name),
        }
    }
}

/// As much of a 32-bit library as its kind.
fn elf32() -> Vec<u8> {
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x03\0\x01\0\0\0".to_vec();
    file.resize(52, 0);
    file
}
