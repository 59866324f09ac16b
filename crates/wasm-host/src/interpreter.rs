//! Runs a policy in an interpreter. It builds in a minute instead of the ten minutes of a wasm compiler, and is fast enough for
//! a policy's short calls.

use std::sync::Arc;

use wasmi::{Caller, Engine, Error, Extern, Linker, Module, Store};

use crate::protocol::{Answer, GUEST_CALL, GuestCall, NO_MEMORY, Random, STARTERS, Side, link_imports};

pub struct Interpreter {
    engine: Engine,
    module: Module,
}

impl Interpreter {
    pub fn new(wasm: &[u8]) -> Result<Self, String> {
        let engine = Engine::default();
        let module = Module::new(&engine, wasm).map_err(|error| error.to_string())?;
        Ok(Self { engine, module })
    }

    /// Makes the call in a fresh instance.
    pub fn call(&self, call: Arc<GuestCall>, answer: Answer) -> Result<Vec<u8>, String> {
        let mut store = Store::new(&self.engine, Side::new(call, answer, Random::Fresh));
        let returned = self.run(&mut store);
        store.into_data().response(returned.map_err(|error| error.to_string()))
    }

    fn run(&self, store: &mut Store<Side>) -> Result<i32, Error> {
        let mut linker = Linker::new(&self.engine);
        link_imports!(linker);
        let instance = linker.instantiate_and_start(&mut *store, &self.module)?;
        for starter in STARTERS {
            if instance.get_func(&*store, starter).is_some() {
                instance.get_typed_func::<(), ()>(&*store, starter)?.call(&mut *store, ())?;
            }
        }
        let lengths = store.data().lengths().map_err(Error::new)?;
        instance.get_typed_func::<(i32, i32), i32>(&*store, GUEST_CALL)?.call(store, lengths)
    }
}

fn enter<R>(
    caller: &mut Caller<'_, Side>,
    function: impl FnOnce(&mut Side, &mut [u8]) -> Result<R, String>,
) -> Result<R, Error> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory).ok_or_else(|| Error::new(NO_MEMORY))?;
    let (memory, side) = memory.data_and_store_mut(caller);
    function(side, memory).map_err(Error::new)
}
