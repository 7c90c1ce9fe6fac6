//! The one decision: what a container says about itself, and what it gets.
//!
//! Plain functions over plain types: no file, no socket, no clock, no environment of its own. The order of the decision, in words:
//!
//! 1. A container without `ALIYUN_COM_GPU_MEM_CONTAINER` asks for nothing and gets nothing, whatever else it or its image says.
//! 2. The quota must be one positive whole number, at most what one card counts times the cards asked, and at most what its pod was given.
//! 3. Nobody else may have given the container a GPU, or lie over the files by which the quota is held.
//! 4. The card is believed in this order: allocation JSON, pod annotation, env index, visible-devices envs, our own best fit.
//!    What the scheduler wrote on the pod is over the env, also where the env says that allocation failed.
//! 5. The share must fit beside what is booked on the card, with isolation and without.
//! 6. `CGPU_DISABLE=true` or the node's owner turns isolation off: the whole card, the share booked all the same.
//!
//! Where nothing above decides, the answer is no.
#![forbid(unsafe_code)]

pub mod adjust;
mod cards;
pub mod contract;
mod decide;
pub mod decision;
pub mod node;
pub mod reason;
pub mod request;
pub mod rules;

pub use adjust::{AdjustError, Placement, adjust};
pub use decide::{asks_for_share, decide};
pub use decision::{Decision, Grant, Outcome};
pub use node::{Node, NodeCard};
pub use reason::{Reason, Warning};
pub use request::Request;
pub use rules::{Isolation, Rules};
