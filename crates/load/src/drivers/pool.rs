//! The connections of a thread, and what all drivers do with them.

use super::Plan;
use super::context::Context;
use super::link::Link;
use super::waiting::Waiting;
use crate::exchange::Exchange;
use crate::record::Open;

/// A connection of a driver, which sends and receives through `T` and keeps as `U` what it has still to send.
pub(crate) struct Connection<C, T, U> {
    /// None from its end until it is used again.
    pub(super) transport: Option<T>,
    pub(super) exchange: Exchange<C>,
    pub(super) unsent: U,
}

impl<C: Clone, T, U: Default> Connection<C, T, U> {
    pub(super) fn new<L: Link>(transport: Option<T>, plan: &Plan<C, L>) -> Self {
        let exchange = Exchange::new(plan.client.clone(), plan.limits);
        Self { transport, exchange, unsent: U::default() }
    }

    /// Makes a closed connection ready for a request on a new one.
    #[cold]
    pub(super) fn renew<L: Link>(&mut self, plan: &Plan<C, L>) {
        self.exchange.open_again(plan.client.clone(), plan.limits);
    }
}

impl<C, T, U> Connection<C, T, U> {
    /// Whether it has a request, and waits to be opened for it.
    pub(super) fn is_waiting(&self) -> bool {
        self.transport.is_none() && !self.exchange.is_idle()
    }

    /// Whether it is closed, and has no request.
    pub(super) fn is_closed(&self) -> bool {
        self.transport.is_none() && self.exchange.is_idle()
    }

    /// Whether it is open, and can carry another request.
    pub(super) fn has_room(&self) -> bool {
        self.transport.is_some() && self.exchange.has_room()
    }
}

/// The connections of a thread.
pub(crate) struct Pool<C, T, U, L: Link> {
    pub(super) connections: Vec<Connection<C, T, U>>,
    pub(super) waiting: Waiting,
    pub(super) plan: Plan<C, L>,
}

impl<C: Clone, T, U: Default, L: Link> Pool<C, T, U, L> {
    /// A pool with room for so many connections.
    pub(super) fn new(plan: Plan<C, L>, count: usize) -> Self {
        Self { connections: Vec::with_capacity(count), waiting: Waiting::default(), plan }
    }

    /// Adds a connection that is open.
    pub(super) fn add(&mut self, transport: T) {
        self.connections.push(Connection::new(Some(transport), &self.plan));
    }
}

/// Records what a run leaves open and unanswered.
pub(super) fn leave<C, T, U, L: Link>(
    connections: &[Connection<C, T, U>],
    plan: &mut Plan<C, L>,
    context: &mut Context<'_>,
) {
    let open = connections.iter().filter(|one| one.transport.is_some());
    let open = Open::of(open.map(|one| one.exchange.is_taken()), plan.idle_open());
    let oldest_ns = connections.iter().filter_map(|one| one.exchange.oldest_ns()).min();
    context.recorder.leave(open, oldest_ns, context.dispatcher);
}
