use super::*;

fn load(args: &[&str], file: &str) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    let mut all = vec!["nri-plugin", "--config", path.to_str().unwrap()];
    all.extend(args);
    Config::load(Flags::try_parse_from(all).unwrap())
}

#[test]
fn flags_are_over_the_file_and_the_file_over_defaults() {
    let config = load(
        &["--unit", "mib", "--index", "42"],
        "unit = \"gib\"\nindex = \"11\"\nisolation = \"off\"\nrun_dir = \"/run/other\"\n",
    )
    .unwrap();
    assert_eq!(config.unit, Some(Unit::MiB));
    assert_eq!(config.index, "42");
    assert_eq!(config.rules.isolation, Isolation::OffOnNode);
    assert_eq!(config.run_dir, Path::new("/run/other"));
    assert_eq!(config.rules.share, ShareRule::Exact);
    assert_eq!(config.nri_socket, Path::new("/var/run/nri/nri.sock"));
    assert_eq!((config.managed, config.context), (Managed::Counted, Bytes(0)));
    let audit = load(&["--audit", "kill"], "audit = \"off\"\naudit_grace = 5\n").unwrap().audit;
    assert_eq!((audit.policy, audit.interval.as_secs(), audit.grace.as_secs()), (Policy::Kill, 30, 5));
    let config = load(&["--context-mib", "300"], "managed_memory = \"ignore\"\n").unwrap();
    assert_eq!((config.managed, config.context), (Managed::Uncounted, Bytes(300 << 20)));
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let error = load(&[], "quoto = 3\n").unwrap_err().to_string();
    assert!(error.contains("quoto") && error.contains("config.toml"), "{error}");
}

#[test]
fn a_bad_value_is_refused_with_what_is_allowed() {
    let error = load(&["--index", "7"], "").unwrap_err().to_string();
    assert!(error.contains("\"7\"") && error.contains("two digits"), "{error}");
    let error = load(&["--run-dir", "here"], "").unwrap_err().to_string();
    assert!(error.contains("run_dir") && error.contains("absolute"), "{error}");
    let error = load(&["--context-mib", "99999"], "").unwrap_err().to_string();
    assert!(error.contains("context_mib") && error.contains("16384"), "{error}");
    for (key, value) in [("audit_interval", "0"), ("audit_interval", "3601"), ("audit_grace", "86401")] {
        let error = load(&[], &format!("{key} = {value}\n")).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
    let error = load(&["--metrics", "0.0.0.0:9400"], "").unwrap_err().to_string();
    assert!(error.contains("metrics") && error.contains("127.0.0.1:9400"), "{error}");
    assert!(load(&[], "share = \"half\"\n").unwrap_err().to_string().contains("share"));
}

#[test]
fn a_named_file_must_exist() {
    let flags = Flags::try_parse_from(["nri-plugin", "--config", "/no/such/file.toml"]).unwrap();
    assert!(Config::load(flags).unwrap_err().to_string().contains("/no/such/file.toml"));
}
