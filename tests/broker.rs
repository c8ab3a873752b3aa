//! The broker's tasks over a model of a store, in simulated time.

mod simulation;
