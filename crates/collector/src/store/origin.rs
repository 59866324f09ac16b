//! The origin of a store: one cluster and one source.

use headroom_metrics_stores::cluster_id::ClusterId;

use super::{ADDRESS_NOTE, CREATED_FACT, FACTS, NOTES, SOURCE_NOTE, Store, StoreError, Trouble, UID_NOTE};

impl Store {
    /// The cluster of the usage, as far as it is known, and the kind and address of its source.
    fn origin(&self) -> Result<(ClusterId, Option<String>), StoreError> {
        let created = self.fact(CREATED_FACT)?;
        self.read(|txn| {
            let notes = txn.open_table(NOTES)?;
            let note = |name| Ok::<_, Trouble>(notes.get(name)?.map(|note| note.value().to_owned()));
            let cluster = ClusterId { address: note(ADDRESS_NOTE)?, uid: note(UID_NOTE)?, created };
            Ok((cluster, note(SOURCE_NOTE)?))
        })
    }

    /// Accepts only usage of this origin from now on, a cluster and the kind and address of a source. Refuses an origin that is
    /// certainly another than the present one; with `allow_source_change`, another source of the same cluster is accepted.
    pub fn claim(&self, of: &ClusterId, source: &str, allow_source_change: bool) -> Result<(), StoreError> {
        let is_empty = self.newest()?.is_none() && self.planned()?.is_none();
        let (mut cluster, known) = if is_empty { Default::default() } else { self.origin()? };
        if cluster.differs_from(of) {
            let (known, found) = (Box::new(cluster), Box::new(of.clone()));
            return Err(StoreError::OtherCluster { path: self.path.clone(), known, found });
        }
        if let Some(known) = known.filter(|known| known != source && !allow_source_change) {
            return Err(StoreError::OtherSource { path: self.path.clone(), known, found: source.to_owned() });
        }
        cluster.add(of);
        self.write(|txn| {
            let mut facts = txn.open_table(FACTS)?;
            let mut notes = txn.open_table(NOTES)?;
            notes.insert(SOURCE_NOTE, source)?;
            for (name, note) in [(UID_NOTE, &cluster.uid), (ADDRESS_NOTE, &cluster.address)] {
                match note {
                    Some(note) => notes.insert(name, note.as_str())?,
                    None => notes.remove(name)?,
                };
            }
            match cluster.created {
                Some(created) => facts.insert(CREATED_FACT, created)?,
                None => facts.remove(CREATED_FACT)?,
            };
            Ok(())
        })
    }
}
