//! One task for each ledger: evaluates all waiting requests against one copy of the state, and writes it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_api_server::parts::{BRIEF, locked};
use headroom_quota_protocol::reservation_request::ReservationRequest;
use headroom_quota_protocol::state::ObjectKey;
use headroom_quota_protocol::{LedgerVerdict, OpenLedger, Plan, State, message};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ledger_cache::{LedgerCache, View};
use crate::metrics::QuotaServerMetrics;
use crate::object_counter::Counter;
use crate::spares::{self, SpareTaken, Spares};
use headroom_api_server::api_client::ApiError;

/// A request that is refused only because of unfinished requests waits while one of those is younger than this.
const WAITS_FOR: Duration = Duration::from_secs(2);
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// The pause after a failed write that only spares need.
const SPARES_RETRY: Duration = Duration::from_secs(1);
/// The maximum time that a replica waits for a write of another: an API server that is slow must not keep requests waiting.
const LONGEST_TURN: Duration = Duration::from_millis(250);
/// The maximum time that requests wait for others to share their write.
const LONGEST_GATHERING: Duration = Duration::from_millis(20);
/// The time after which jobs without a deadline of their own are given up.
const JOB_TIMEOUT: Duration = Duration::from_secs(5);
/// A task ends after this time without jobs.
const IDLE: Duration = Duration::from_secs(600);

/// The verdict of a ledger on a request, and the plan by which it was made. An error says why the ledger cannot be
/// written; the client must retry.
pub type LedgerAnswer = Result<(LedgerVerdict, Arc<Plan>), String>;

enum Job {
    Reserve(Waiting),
    Cancel(Back),
    /// The count or the spares are due.
    Write,
    Replan(Replan),
}

struct Waiting {
    reservation: ReservationRequest,
    /// After this time the client must retry.
    until: Instant,
    answer: oneshot::Sender<LedgerAnswer>,
}

/// A claim that is given back. If that fails for too long, it is released when its request is over.
struct Back {
    key: ObjectKey,
    token: String,
    until: Instant,
    /// Notified when the claim is removed.
    done: oneshot::Sender<()>,
}

/// A plan to be activated. If that fails for too long, the planner makes it again.
struct Replan {
    plan: Arc<Plan>,
    until: Instant,
    done: oneshot::Sender<()>,
}

/// By ledger.
#[derive(Default)]
pub struct Tasks(Mutex<HashMap<String, mpsc::UnboundedSender<Job>>>);

pub struct Writers {
    pub ledgers: Arc<LedgerCache>,
    pub counter: Arc<Counter>,
    pub metrics: Arc<QuotaServerMetrics>,
    pub spares: Spares,
    pub stop: CancellationToken,
    pub tasks: Tasks,
}

impl Writers {
    fn send(self: &Arc<Self>, ledger: &str, job: Job) {
        let mut tasks = locked(&self.tasks.0);
        let job = match tasks.get(ledger) {
            Some(task) => match task.send(job) {
                Ok(()) => return,
                // The task has ended after a long time without jobs.
                Err(mpsc::error::SendError(job)) => job,
            },
            None => job,
        };
        let (sender, jobs) = mpsc::unbounded_channel();
        // Cannot fail: the receiver is still held here.
        _ = sender.send(job);
        tasks.insert(ledger.to_owned(), sender);
        let (writers, ledger) = (Arc::clone(self), ledger.to_owned());
        self.metrics.parts.finish("writer of a ledger", IDLE + BRIEF, async move {
            let stop = writers.stop.clone();
            let changes = writers.ledgers.changes.subscribe();
            let mut writer = Writer {
                writers,
                ledger,
                jobs,
                changes,
                batch: Batch::default(),
                spares_after: Instant::now(),
                first_seen: HashMap::new(),
                round_trip: RETRY_DELAY,
                last_shared: 0,
                last_written: None,
                is_shared: false,
            };
            stop.run_until_cancelled(writer.run()).await;
        });
    }

    /// Reserves room for an object. Returns when the claim is written or refused, or at once if there is a spare.
    pub async fn reserve(
        self: &Arc<Self>,
        ledger: &str,
        reservation: ReservationRequest,
        until: Instant,
    ) -> LedgerAnswer {
        // Unless it is to have another plan soon.
        let view = self.ledgers.view(ledger).filter(|view| self.ledgers.last_plan(ledger) == view.plan.number);
        if let Some(view) = view {
            let found = self.spares.take(&view, &reservation);
            if found == SpareTaken::OneOfFew {
                self.send(ledger, Job::Write);
            }
            if found != SpareTaken::None {
                return Ok((LedgerVerdict::Granted, view.plan));
            }
        }
        let (answer, answered) = oneshot::channel();
        self.send(ledger, Job::Reserve(Waiting { reservation, until, answer }));
        answered.await.unwrap_or_else(|_| Err(message::not_writable(ledger, "shutting down")))
    }

    /// Gives back what was reserved under a token. The receiver tells when that is done.
    pub fn cancel(self: &Arc<Self>, ledger: &str, key: ObjectKey, token: String) -> oneshot::Receiver<()> {
        let (done, is_done) = oneshot::channel();
        self.send(ledger, Job::Cancel(Back { key, token, until: Instant::now() + JOB_TIMEOUT, done }));
        is_done
    }

    pub fn settle(self: &Arc<Self>, ledger: &str) {
        self.send(ledger, Job::Write);
    }

    /// Activates a plan whose object was written before. Returns whether that succeeded.
    pub async fn replan(self: &Arc<Self>, ledger: &str, plan: Arc<Plan>) -> bool {
        let until = Instant::now() + JOB_TIMEOUT;
        // Meanwhile requests are answered, and replicas that know of the plan write no more spares.
        while self.ledgers.view(ledger).is_some_and(|view| self.spares.may_be_taken(&view.state)) {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        let (done, is_done) = oneshot::channel();
        self.send(ledger, Job::Replan(Replan { plan, until: Instant::now() + JOB_TIMEOUT, done }));
        is_done.await.is_ok()
    }
}

#[derive(Default)]
struct Batch {
    waiting: Vec<Waiting>,
    /// Refused because of unfinished requests; they wait until the ledger changes.
    parked: Vec<Waiting>,
    back: Vec<Back>,
    is_due: bool,
    replan: Option<Replan>,
}

impl Batch {
    fn add(&mut self, job: Job) {
        match job {
            Job::Reserve(waiting) => self.waiting.push(waiting),
            Job::Cancel(back) => self.back.push(back),
            Job::Write => self.is_due = true,
            Job::Replan(replan) => self.replan = Some(replan),
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.back.is_empty() && !self.is_due && self.replan.is_none()
    }
}

struct Writer {
    writers: Arc<Writers>,
    ledger: String,
    jobs: mpsc::UnboundedReceiver<Job>,
    changes: watch::Receiver<()>,
    batch: Batch,
    /// After a failed write, spares alone are no reason for another one before this time.
    spares_after: Instant,
    /// The time at which this replica first saw each entry, by token.
    first_seen: HashMap<String, Instant>,
    /// The duration of the last write.
    round_trip: Duration,
    /// The number of requests that shared the last write with any.
    last_shared: usize,
    last_written: Option<u64>,
    /// Another replica writes this ledger at the same time.
    is_shared: bool,
}

impl Writer {
    async fn run(&mut self) {
        while self.wait().await {
            // Replicas that write one ledger at the same time take turns: each waits for a write of another before its own next
            // one. Otherwise every other write would be in vain. Meanwhile more jobs arrive, which share the write. Only a
            // conflict shows that both write at the same time: calls that reach the replicas one after the other wait for
            // nothing.
            if let Some(own) = self.last_written.filter(|_| self.is_shared) {
                self.is_shared = self.view_after(own).await.is_some();
            }
            while let Ok(job) = self.jobs.try_recv() {
                self.batch.add(job);
            }
            self.gather().await;
            self.round().await;
        }
    }

    /// Waits for a job. False when all senders are gone.
    async fn wait(&mut self) -> bool {
        while self.batch.is_idle() {
            if self.batch.parked.is_empty() {
                let due = self.writers.spares.due(&self.ledger).map(|due| due.max(self.spares_after));
                let until = due.unwrap_or_else(|| Instant::now() + IDLE);
                match tokio::time::timeout_at(until, self.jobs.recv()).await {
                    Ok(Some(job)) => self.batch.add(job),
                    Err(_) if due.is_some() => self.batch.is_due = true,
                    // A later job starts another task.
                    _ => self.jobs.close(),
                }
                if self.jobs.is_closed() && self.batch.is_idle() {
                    return false;
                }
                continue;
            }
            let changed = tokio::time::timeout(Duration::from_millis(250), self.changes.changed());
            tokio::select! {
                job = self.jobs.recv() => match job {
                    Some(job) => self.batch.add(job),
                    None => return false,
                },
                _ = changed => self.batch.waiting.append(&mut self.batch.parked),
            }
        }
        true
    }

    /// Waits until as many requests are there as shared the last write, at most for half the time that a write takes. A
    /// lone request never waits; of many, each write saved leaves the API server more time for all of them.
    async fn gather(&mut self) {
        let deadline = Instant::now() + (self.round_trip / 2).min(LONGEST_GATHERING);
        while (1..self.last_shared).contains(&self.batch.waiting.len()) {
            match tokio::time::timeout_at(deadline, self.jobs.recv()).await {
                Ok(Some(job)) => self.batch.add(job),
                _ => return,
            }
        }
    }

    /// Waits for a write of another replica, at most four times as long as a write takes: it may have begun to gather only
    /// when the watch brought the last write, and the watch has to bring its own. Giving up earlier is giving up when that
    /// write is on the way.
    async fn view_after(&mut self, revision: u64) -> Option<View> {
        let deadline = Instant::now() + LONGEST_TURN.min(4 * self.round_trip);
        loop {
            let view = self.writers.ledgers.view(&self.ledger).filter(|view| view.revision > revision);
            if view.is_some() || tokio::time::timeout_at(deadline, self.changes.changed()).await.is_err() {
                return view;
            }
        }
    }

    /// Evaluates and writes until all waiting requests are answered or parked.
    async fn round(&mut self) {
        let mut view = match self.writers.ledgers.view(&self.ledger) {
            Some(view) => Ok(view),
            None => self.writers.ledgers.load(&self.ledger).await,
        };
        loop {
            self.changes.mark_unchanged();
            let cause = match &view {
                Ok(current) => match self.attempt(current).await {
                    Ok(()) => return,
                    Err(cause) => cause,
                },
                Err(problem) => ApiError::Other(problem.clone()),
            };
            let mut newer = None;
            if let (ApiError::Conflict { .. }, Ok(tried)) = (&cause, &view) {
                self.writers.metrics.conflicts.inc();
                self.is_shared = true;
                newer = self.view_after(tried.revision).await;
            } else {
                tracing::warn!(ledger = self.ledger, %cause, "cannot write a ledger");
                tokio::time::sleep(RETRY_DELAY).await;
            }
            self.give_up(&cause);
            if self.batch.is_idle() {
                return;
            }
            view = match newer {
                Some(view) => Ok(view),
                None => self.writers.ledgers.load(&self.ledger).await,
            };
        }
    }

    /// Asks clients whose deadline has passed to retry.
    fn give_up(&mut self, cause: &ApiError) {
        let now = Instant::now();
        let message_text = message::not_writable(&self.ledger, &cause.to_string());
        for late in self.batch.waiting.extract_if(.., |waiting| waiting.until <= now) {
            _ = late.answer.send(Err(message_text.clone()));
        }
        self.batch.waiting.retain(|waiting| !waiting.answer.is_closed());
        self.batch.back.retain(|back| back.until > now);
        // A plan of a former leader must not be activated when this replica leads again.
        self.batch.replan.take_if(|replan| replan.until <= now || replan.done.is_closed());
        if !matches!(cause, ApiError::Conflict { .. }) {
            // The ledger stays due: the leader sends the job again.
            self.batch.is_due = false;
            self.spares_after = now + SPARES_RETRY;
        }
    }

    /// Evaluates all jobs against one copy of the state, writes it if they change it, and answers them.
    async fn attempt(&mut self, view: &View) -> Result<(), ApiError> {
        let began = Instant::now();
        let plan = self.plan_to_use(view)?;
        let (state, recorded, turn) = self.count(view, &plan)?;
        let (state, verdicts, spares) = self.reserve(&plan, state);
        self.note_first_seen(&state, began);
        let revision = match state == *view.state {
            true => Some(view.revision),
            false => self.write(state, view.revision, recorded.len()).await?,
        };
        self.writers.spares.written(&self.ledger, &recorded, spares, plan.number, began);
        if let (Some(turn), Some(revision)) = (turn, revision) {
            self.writers.counter.has_settled(&self.ledger, turn, revision);
        }
        self.answer(verdicts, &plan);
        Ok(())
    }

    /// The plan in force, or the one to be activated.
    fn plan_to_use(&self, view: &View) -> Result<Arc<Plan>, ApiError> {
        let Some(replan) = &self.batch.replan else { return Ok(Arc::clone(&view.plan)) };
        if self.writers.spares.may_be_taken(&view.state) {
            return Err(ApiError::Other("a replica may still take spares by the present plan".to_owned()));
        }
        Ok(Arc::clone(&replan.plan))
    }

    /// The state with claims for the creates that took a spare, recounted if this replica counts, and without what was
    /// cancelled. Also returns the tokens of those creates, and the turn of the count.
    fn count(&self, view: &View, plan: &Arc<Plan>) -> Result<(State, Vec<String>, Option<u64>), ApiError> {
        let cancelled: Vec<&String> = self.batch.back.iter().map(|back| &back.token).collect();
        let mut known = State::clone(&view.state);
        // Before the count: most of what took a spare is stored already, and needs no claim.
        let recorded = self.writers.spares.settle(&self.ledger, &mut known, &cancelled);
        // The leader recounts with every write: that saves a write, and no request is refused because of an old count.
        let (mut state, turn) = match self.writers.counter.settle(&self.ledger, plan, &known) {
            Some((state, turn)) => (state, Some(turn)),
            None if self.batch.replan.is_some() => {
                return Err(ApiError::Other("this replica does not count".to_owned()));
            }
            None => (known, None),
        };
        for Back { key, token, .. } in &self.batch.back {
            state.cancel(key, token);
        }
        Ok((state, recorded, turn))
    }

    /// The state with claims for the waiting requests, their verdicts, and the spares that were added.
    fn reserve(&mut self, plan: &Plan, state: State) -> (State, Vec<LedgerVerdict>, spares::Added) {
        // Drop requests whose client has disconnected.
        self.batch.waiting.retain(|waiting| !waiting.answer.is_closed());
        let mut open = OpenLedger::new(plan, state);
        let verdicts = self.batch.waiting.iter().map(|waiting| open.reserve(&waiting.reservation)).collect();
        let is_last_plan = self.writers.ledgers.last_plan(&self.ledger) == plan.number;
        let spares = if is_last_plan { self.writers.spares.add(&self.ledger, &mut open) } else { Vec::new() };
        (open.into_state(), verdicts, spares)
    }

    fn note_first_seen(&mut self, state: &State, now: Instant) {
        let mut seen = std::mem::take(&mut self.first_seen);
        self.first_seen = state
            .entries()
            .map(|(_, entry)| seen.remove_entry(&entry.token).unwrap_or_else(|| (entry.token.clone(), now)))
            .collect();
    }

    /// Writes the state in place of a revision. Returns its own revision.
    async fn write(&mut self, state: State, over: u64, recorded: usize) -> Result<Option<u64>, ApiError> {
        let began = Instant::now();
        self.last_written = self.writers.ledgers.write(&self.ledger, state, Some(over)).await?;
        self.round_trip = began.elapsed();
        self.writers.metrics.wrote(self.batch.waiting.len() + recorded);
        if !self.batch.waiting.is_empty() {
            self.last_shared = self.batch.waiting.len();
        }
        Ok(self.last_written)
    }

    /// Answers all jobs. Requests that are refused only because of young claims stay parked.
    fn answer(&mut self, verdicts: Vec<LedgerVerdict>, plan: &Arc<Plan>) {
        let now = Instant::now();
        self.batch.is_due = false;
        if let Some(replan) = self.batch.replan.take() {
            _ = replan.done.send(());
        }
        for back in self.batch.back.drain(..) {
            _ = back.done.send(());
        }
        let is_young =
            |token: &String| self.first_seen.get(token).is_some_and(|seen| now.duration_since(*seen) < WAITS_FOR);
        for (waiting, verdict) in self.batch.waiting.drain(..).zip(verdicts) {
            match &verdict {
                LedgerVerdict::Refused(refusal) if refusal.waits_for.iter().any(is_young) && now < waiting.until => {
                    self.batch.parked.push(waiting);
                }
                // If the client has disconnected, dropping the review gives the claim back.
                _ => _ = waiting.answer.send(Ok((verdict, Arc::clone(plan)))),
            }
        }
    }
}
