//! Whatever a container says: no panic, and never more than was asked.
#![expect(clippy::unwrap_used, reason = "a broken table or fixture must fail the test")]

use cdi::{ContainerEdits, DeviceNode};
use policy::{Node, NodeCard, Outcome, Placement, Request, Rules, adjust, contract, decide};
use proptest::prelude::*;
use quota::{Bytes, CardId, Unit};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,3}",
        "-?[0-9]{1,22}",
        Just("true".to_owned()),
        Just("all".to_owned()),
        Just("GPU-00000001-0000-0000-0000-000000000000".to_owned()),
        Just("no-gpu-has-3GiB-to-run".to_owned()),
        r#"\{"[0-2]":\{"[0-2]":[0-9]{1,2}\}\}"#,
        any::<String>(),
    ]
}

fn keyed(keys: &'static [&'static str]) -> impl Strategy<Value = Vec<(String, String)>> {
    let key = proptest::sample::select(keys).prop_map(str::to_owned);
    proptest::collection::vec((key, text()), 0..6)
}

prop_compose! {
    fn request()(
        quota in proptest::option::weighted(0.9, "[0-9]{1,2}"),
        env in keyed(&[
            contract::MEM_CONTAINER, contract::MEM_DEV, contract::MEM_IDX, contract::VISIBLE_DEVICES,
            contract::NVIDIA_VISIBLE_DEVICES, contract::DISABLE,
        ]),
        annotations in keyed(&[contract::MEM_IDX, contract::MEM_POD, contract::MEM_DEV, contract::ALLOCATION]),
        labels in keyed(&[contract::GPU_COUNT]),
        mounts in proptest::collection::vec("/[a-z./-]{0,12}", 0..2),
    ) -> Request {
        let first = quota.map(|quota| (contract::MEM_CONTAINER.to_owned(), quota));
        Request {
            env: first.into_iter().chain(env).collect(),
            pod_annotations: annotations.into_iter().collect(),
            pod_labels: labels.into_iter().collect(),
            mounts,
            ..Request::default()
        }
    }
}

fn node(booked: [u64; 3]) -> Node {
    let card = |(index, booked): (usize, u64)| NodeCard {
        index: u32::try_from(index).unwrap(),
        id: CardId::parse(&format!("GPU-{index:08x}-0000-0000-0000-000000000000")).unwrap(),
        memory: Bytes::from_mib(16_130).unwrap(),
        booked: Bytes(booked),
        edits: ContainerEdits {
            device_nodes: vec![DeviceNode { path: format!("/dev/nvidia{index}"), ..DeviceNode::default() }],
            ..ContainerEdits::default()
        },
    };
    let cards = booked.into_iter().enumerate().map(card).collect();
    Node { unit: Some(Unit::GiB), cards, common: ContainerEdits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn never_more_than_was_asked(request in request(), booked in any::<[u16; 3]>()) {
        let node = node(booked.map(|mib| u64::from(mib % 20_000) << 20));
        let decision = decide(&request, &node, &Rules::default());
        let place = |name: &str| name.to_owned();
        let placement =
            Placement { library: place("a"), preload: place("b"), limits: place("c"), ledger: place("d") };
        let edits = adjust(&decision, &request, &node, Some(&placement)).unwrap();
        match &decision.outcome {
            Outcome::NotOurs => {
                prop_assert!(edits.is_empty());
                prop_assert!(request.env_seen(contract::MEM_CONTAINER).is_none());
            }
            Outcome::Deny(reason) => {
                prop_assert!(edits.is_empty());
                prop_assert!(!reason.to_string().chars().any(char::is_control));
            }
            Outcome::Whole(grants) | Outcome::Share(grants) => {
                let asked = contract::positive(request.env_seen(contract::MEM_CONTAINER).unwrap()).unwrap();
                prop_assert_eq!(grants.iter().map(|grant| grant.bytes.0).sum::<u64>(), asked << 30);
                prop_assert_eq!(edits.device_nodes.len(), grants.len());
                for grant in grants {
                    let card = node.card(grant.index).unwrap();
                    prop_assert!(grant.bytes.0 > 0 && grant.bytes <= card.free());
                }
            }
        }
    }
}
