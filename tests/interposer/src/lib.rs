//! Runs the guest program under the interposer, on the simulated driver, and reads what it says.
