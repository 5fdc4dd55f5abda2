//! The suite that every store passes, straight to the server.

mod common;

use common::make;

store::store_conformance!(make);
