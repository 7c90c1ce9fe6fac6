use super::*;
use crate::status::{CardStatus, VERSION};

fn status() -> Status {
    let share = ShareStatus {
        card: Some(0),
        uuid: "GPU-1".to_owned(),
        quota_bytes: 3 << 30,
        used_bytes: Some(7),
        peak_bytes: Some(9),
        processes: Some(1),
        refused_allocations: Some(2),
        driver_bytes: Some(436),
        drift_bytes: Some(429),
    };
    let container = ContainerStatus {
        id: "abc".to_owned(),
        namespace: "ns".to_owned(),
        pod: "po\"d\nx 1".to_owned(),
        container: "main".to_owned(),
        isolated: true,
        shares: vec![share],
        refused_processes: 0,
        refused_reason: None,
        fault: None,
    };
    let card = CardStatus { index: 0, uuid: "GPU-1".to_owned(), total_bytes: 10, booked_bytes: 4, free_bytes: 6 };
    Status {
        version: VERSION,
        daemon: true,
        cards: vec![card],
        containers: vec![container],
        faults: Vec::new(),
        audit: None,
    }
}

fn line(text: &str, name: &str) -> String {
    text.lines().find(|line| line.starts_with(name)).map_or_else(|| panic!("{name}: {text}"), str::to_owned)
}

#[test]
fn answers_are_counted_by_what_became_of_them() {
    let metrics = Metrics::default();
    metrics.answered(Counted::Share, Duration::from_micros(60));
    metrics.answered(Counted::Share, Duration::from_secs(5));
    metrics.connected(true);
    let text = metrics.text(&status());
    for (name, value) in [
        ("gpu_quota_requests_total{outcome=\"share\"}", "2"),
        ("gpu_quota_requests_total{outcome=\"failed\"}", "0"),
        ("gpu_quota_create_container_seconds_count", "2"),
        ("gpu_quota_create_container_seconds_bucket{le=\"0.0001\"}", "1"),
        ("gpu_quota_create_container_seconds_bucket{le=\"+Inf\"}", "2"),
        ("gpu_quota_runtime_connected", "1"),
        ("gpu_quota_card_free_bytes{card=\"0\",uuid=\"GPU-1\"}", "6"),
    ] {
        assert_eq!(line(&text, name), format!("{name} {value}"));
    }
    assert!(line(&text, "gpu_quota_build_info").contains(env!("CARGO_PKG_VERSION")));
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    assert_eq!(line(&text, "# TYPE gpu_quota_container_used_bytes"), "# TYPE gpu_quota_container_used_bytes gauge");
}

#[test]
fn names_of_strangers_stay_within_their_label() {
    let text = Metrics::default().text(&status());
    let used = line(&text, "gpu_quota_container_used_bytes");
    assert!(used.contains(r#"pod="po\"d\nx 1""#) && used.ends_with("} 7"), "{used}");
}

#[test]
fn a_forged_ledger_is_a_fault_and_no_number() {
    let mut status = status();
    status.containers[0].fault = Some("forged".to_owned());
    let text = Metrics::default().text(&status);
    assert!(line(&text, "gpu_quota_container_fault{").ends_with(" 1"));
    assert!(line(&text, "gpu_quota_container_quota_bytes{").ends_with(" 3221225472"));
    assert!(!text.contains("gpu_quota_container_used_bytes{"));
    status.containers.clear();
    let text = Metrics::default().text(&status);
    assert!(!text.contains("namespace="), "who is gone has no series");
}
