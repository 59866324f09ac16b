//! The cluster's objects: which to read, and what was read.
//!
//! The core only lists the lookups it needs, as data in a fixed order; a shell performs them.

pub mod devices;

pub mod label_selector;
pub mod limit_range;
pub mod resource_quota;
pub mod tenant_quota;
pub mod usage;

pub mod autoscaler;
pub mod lookup;

use std::rc::Rc;

use crate::find;
use crate::json::{Document, Malformed, Node};
use crate::timestamp::Timestamp;
use autoscaler::Autoscaler;
use devices::DeviceClass;
use limit_range::LimitRange;
use lookup::{Lookup, Missing, NOT_FOUND};
use resource_quota::ResourceQuota;
use tenant_quota::TenantQuota;
use usage::profile_layout::{ProfileKey, ProfileName};
use usage::read::{ImageHistories, Profile};

/// The objects read from the cluster for one request.
#[derive(Debug, Clone, Default)]
pub struct Context<'d> {
    /// In name order; none if they were not requested or could not be read.
    pub limit_ranges: Option<Vec<Rc<LimitRange<'d>>>>,
    /// In name order; none if they were not requested or could not be read.
    pub quotas: Option<Vec<ResourceQuota<'d>>>,
    /// All TenantQuotas, in name order.
    pub tenant_quotas: Vec<TenantQuota<'d, Node<'d>>>,
    /// The workload that a `scale` is about.
    pub scaled: Option<Node<'d>>,
    /// True if the Namespace was requested, found or not.
    pub asked_for_namespace: bool,
    pub namespace: Option<Node<'d>>,
    /// The entries of the wanted images in the profiles that were found, each image once.
    pub usage: Vec<Found<'d>>,
    /// When each of the objects was collected that say that the namespace does not ask for fewer estimates.
    pub unrestricted_at: Vec<Timestamp>,
    /// Empty if they were not requested.
    pub autoscalers: Vec<Autoscaler<'d>>,
    /// For the extended resources of a claim's devices; none if they were not requested or could not be read.
    pub device_classes: Option<Vec<DeviceClass<'d>>>,
    /// The pod that a resource claim was made for.
    pub pod_of_claim: Option<Node<'d>>,
    pub resource_claims: Option<Node<'d>>,
    /// The time of the request, if anything depends on it and the shell knows it.
    pub now: Option<Timestamp>,
    /// The failed lookups, in the order in which they were requested.
    pub missing: Vec<Missing<'d>>,
}

/// The entry of an image in a profile.
#[derive(Debug, Clone)]
pub struct Found<'d> {
    pub place: Rc<ProfileKey>,
    /// The object that was read.
    pub name: ProfileName,
    pub entry: Result<ImageHistories<'d>, Malformed>,
    /// The object that contains the entry instead: a page, or where the collector wrote no quarter yet, the older root.
    pub elsewhere: Option<ProfileName>,
}

impl<'d> Found<'d> {
    fn read(place: &Rc<ProfileKey>, name: &ProfileName, of: &str, profile: &Result<Profile<'d>, Malformed>) -> Self {
        let entry = profile.clone().and_then(|profile| profile.entry(place, of));
        let mut found = Self { place: Rc::clone(place), name: name.clone(), entry, elsewhere: None };
        // Our pages do not list pages. Following such a list might never end.
        if let (Ok(profile), false) = (profile, name.is_page()) {
            match profile.page(name, place, of) {
                Ok(page) => found.elsewhere = page,
                Err(malformed) => found.entry = Err(malformed),
            }
        }
        found
    }
}

impl<'d> Context<'d> {
    /// Adds the answers to some lookups: documents, or the host's error messages.
    pub fn add_all(&mut self, lookups: &[Lookup<'d>], answers: &'d [Result<Document<'d>, String>]) {
        for (lookup, answer) in lookups.iter().zip(answers) {
            self.add(lookup, answer.as_ref().map(Document::root).map_err(Clone::clone));
        }
    }

    pub fn add(&mut self, lookup: &Lookup<'d>, answer: Result<Node<'d>, String>) {
        self.asked_for_namespace |= matches!(lookup, Lookup::Namespace { .. });
        if let Err(problem) = &answer
            && lookup.is_absent(problem)
        {
            match lookup {
                // The quota was deleted between the two reads.
                Lookup::FreshQuota { name, .. } => {
                    self.quotas.iter_mut().for_each(|quotas| quotas.retain(|quota| quota.name != *name));
                }
                Lookup::UsageProfile { name, places, .. }
                    if name.is_quarter() && find::contains(problem, NOT_FOUND) =>
                {
                    self.usage.extend(places.iter().map(|place| Found {
                        place: Rc::clone(place),
                        name: name.clone(),
                        entry: Ok(ImageHistories::default()),
                        elsewhere: Some(ProfileName::older(name.root)),
                    }));
                }
                _ => {}
            }
            return;
        }
        let (problem, was_found) = match answer.map(|node| self.take(lookup, node)) {
            Ok(Ok(())) => return,
            Ok(Err(malformed)) => (malformed.to_string(), true),
            Err(problem) => (problem, false),
        };
        self.missing.push(Missing { lookup: lookup.clone(), problem, was_found });
    }

    fn take(&mut self, lookup: &Lookup<'d>, node: Node<'d>) -> Result<(), Malformed> {
        match lookup {
            Lookup::Namespace { .. } => {
                node.fields()?;
                self.namespace = Some(node);
            }
            Lookup::Autoscalers { .. } => self.autoscalers = Autoscaler::read_list(node)?,
            Lookup::UsageProfile { name, places, of, .. } => {
                let profile = Profile::read(node);
                if let (Ok(first), false) = (&profile, name.is_page()) {
                    self.unrestricted_at.extend(first.unrestricted_at(of));
                }
                self.usage.retain(|known| !places.contains(&known.place));
                self.usage.extend(places.iter().map(|place| Found::read(place, name, of, &profile)));
            }
            Lookup::LimitRanges { .. } => {
                self.limit_ranges = Some(LimitRange::read_list(node)?.into_iter().map(Rc::new).collect())
            }
            Lookup::Quotas { namespace } => {
                let mut quotas = ResourceQuota::read_list(node)?;
                // A list from a file may contain quotas of other namespaces.
                quotas.retain(|quota| quota.namespace.is_empty() || quota.namespace == *namespace);
                self.quotas = Some(quotas);
            }
            Lookup::TenantQuotas => self.tenant_quotas = TenantQuota::read_list(node)?,
            Lookup::FreshQuota { .. } => {
                let fresh = ResourceQuota::read(node)?;
                let listed = self.quotas.iter_mut().flatten().find(|quota| quota.name == fresh.name);
                if let Some(listed) = listed {
                    *listed = fresh;
                }
            }
            Lookup::Scaled { .. } => self.scaled = Some(node),
            Lookup::DeviceClasses => self.device_classes = Some(DeviceClass::read_list(node)?),
            Lookup::PodOfClaim { .. } => self.pod_of_claim = Some(node),
            Lookup::ResourceClaims { .. } => self.resource_claims = Some(node),
        }
        Ok(())
    }
}
