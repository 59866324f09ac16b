//! Advice beside what a container's program is told of CPU and memory: no memory request is lowered below what it may come to use, and
//! settings that have to change together with a request are named.

use headroom_admission::amount::{Quantity, Requirement};
use headroom_admission::cluster::usage::Resource;
use headroom_workloads::program::{Setting, Told};

use crate::advice::workload::ContainerAdvice;

impl ContainerAdvice {
    /// The memory that a setting allows, as far as it is known.
    fn memory_told(&self, setting: &Setting) -> Option<Quantity> {
        let memory = self.resource(Resource::Memory)?;
        setting.memory(memory.written.as_ref(), memory.limit.as_ref())
    }

    pub fn keep_what_program_may_use(&mut self) {
        let settings = self.reads.iter().filter(|setting| setting.grows);
        let most = settings.filter_map(|setting| Some((self.memory_told(setting)?, setting.text.clone()))).max();
        let (Some((most, setting)), Some(memory)) = (most, self.memory_mut()) else { return };
        let Some(least) = memory.written.as_ref().map(|written| written.min(&most).clone()) else { return };
        if memory.recommended.as_ref().is_some_and(|recommended| *recommended < least) {
            memory.recommend(Some(least));
            memory.reason.iter_mut().for_each(|reason| reason.allowed_by = Some(setting.clone()));
        }
    }

    /// The settings that matter beside what is recommended.
    pub fn told(&self) -> impl Iterator<Item = &Setting> {
        let changes = |resource: &str, requirement| {
            let mut all = self.resources.iter().filter(|of| of.resource.name() == resource);
            all.any(|of| {
                if requirement == Requirement::Limit { of.recommended_limit.is_some() } else { of.to_write().is_some() }
            })
        };
        self.reads.iter().filter(move |setting| match &setting.told {
            Told::Field(requirement, resource) if !setting.grows => changes(resource, *requirement),
            Told::Cpus => changes(Resource::Cpu.name(), Requirement::Request),
            _ => {
                let recommended = self.resource(Resource::Memory).and_then(|memory| memory.recommended.as_ref());
                recommended.is_some_and(|amount| self.memory_told(setting).is_none_or(|most| most >= *amount))
            }
        })
    }

    /// A sentence for each of these settings, with the value that has to change.
    pub fn told_in_words(&self) -> impl Iterator<Item = String> {
        let reason = self.resource(Resource::Memory).and_then(|memory| memory.reason.as_ref());
        let is_kept = reason.is_some_and(|reason| reason.allowed_by.is_some());
        self.told().map(move |setting| {
            let about = match (&setting.told, self.memory_told(setting)) {
                (_, Some(most)) if setting.grows && is_kept => {
                    format!("lets it use {most}: to request less, lower that first")
                }
                (_, Some(most)) if setting.grows => {
                    format!("lets it use {most}, more than is requested: lower that, or request as much")
                }
                (Told::Field(..), _) => "changes with it: see that the program works with that".to_owned(),
                (Told::Cpus, _) => "stays as it is: change it together with the cpu request".to_owned(),
                _ => "stays as it is: change it together with the memory request".to_owned(),
            };
            format!("container {}: {} {about}", self.name, setting.text)
        })
    }
}
