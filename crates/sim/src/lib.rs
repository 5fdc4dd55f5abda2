pub mod checker;
pub mod log;
pub mod rng;
