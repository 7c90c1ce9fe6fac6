//! Synchronisations, after which the driver gives back what pools hold without need. They cost one look at a word where no pool does.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::hook::pool::settle_all;
use crate::real::{self, call};
use crate::table::Name;

macro_rules! synchronisations {
    ($($name:ident($($argument:ident),*)),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($argument: usize),*) -> CuResult {
            let result = call!(
                real::of(Name::$name),
                fn($(synchronisations!(@word $argument)),*) -> CuResult,
                ($($argument),*),
                else CuResult::NOT_FOUND
            );
            settle_all();
            result
        }
    )*};
    (@word $argument:ident) => { usize };
}

synchronisations!(
    cuCtxSynchronize(),
    cuCtxSynchronize_v2(context),
    cuStreamSynchronize(stream),
    cuStreamSynchronize_ptsz(stream),
    cuEventSynchronize(event),
);
