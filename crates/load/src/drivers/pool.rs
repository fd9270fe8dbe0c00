//! The connections of a thread.

use super::Plan;
use super::context::Context;
use super::transport::Transport;
use super::waiting::Waiting;
use crate::client_connection::ClientConnection;
use crate::record::Open;

/// A connection of a driver. `H` is its handle to send and receive through, `U` its unsent bytes.
pub(crate) struct Connection<C, H, U> {
    /// None while it is closed.
    pub(super) handle: Option<H>,
    pub(super) client: ClientConnection<C>,
    pub(super) unsent: U,
}

impl<C: Clone, H, U: Default> Connection<C, H, U> {
    pub(super) fn new<T: Transport>(handle: Option<H>, plan: &Plan<C, T>, number: u64) -> Self {
        let client = ClientConnection::new(plan.client.clone(), plan.limits, number);
        Self { handle, client, unsent: U::default() }
    }

    /// Makes a closed connection ready for a request on a new one.
    #[cold]
    pub(super) fn renew<T: Transport>(&mut self, plan: &mut Plan<C, T>) {
        plan.begin_to_connect();
        self.client.open_again(plan.client.clone(), plan.limits, plan.connections_begun);
    }
}

impl<C, H, U> Connection<C, H, U> {
    /// Whether it has a request and waits to be opened for it.
    pub(super) fn is_waiting(&self) -> bool {
        self.handle.is_none() && !self.client.is_idle()
    }

    /// Whether it is closed and has no request.
    pub(super) fn is_closed(&self) -> bool {
        self.handle.is_none() && self.client.is_idle()
    }

    /// Whether it is open and can carry another request.
    pub(super) fn has_room(&self) -> bool {
        self.handle.is_some() && self.client.has_room()
    }
}

/// All connections of a thread, with the queue of those that wait for room.
pub(crate) struct Pool<C, H, U, T: Transport> {
    pub(super) connections: Vec<Connection<C, H, U>>,
    pub(super) waiting: Waiting,
    pub(super) plan: Plan<C, T>,
}

impl<C: Clone, H, U: Default, T: Transport> Pool<C, H, U, T> {
    /// An empty pool with room for `count` connections.
    pub(super) fn new(plan: Plan<C, T>, count: usize) -> Self {
        Self { connections: Vec::with_capacity(count), waiting: Waiting::default(), plan }
    }

    /// Adds an open connection.
    pub(super) fn add(&mut self, handle: H) {
        let number = self.connections.len() as u64 + 1;
        self.connections.push(Connection::new(Some(handle), &self.plan, number));
    }

    /// Adds closed connections until there are `count`.
    pub(super) fn fill(&mut self, count: usize) {
        while self.connections.len() < count {
            self.connections.push(Connection::new(None, &self.plan, 0));
        }
    }
}

/// Records what a run leaves open and unanswered. `is_connected` checks connections that may still be connecting.
pub(super) fn leave<C, H, U, T: Transport>(
    connections: &[Connection<C, H, U>],
    plan: &mut Plan<C, T>,
    context: &mut Context<'_>,
    is_connected: impl Fn(&H) -> bool,
) {
    let is_open = |one: &Connection<C, H, U>| {
        one.handle.as_ref().is_some_and(|handle| one.client.is_taken() || is_connected(handle))
    };
    let open = connections.iter().filter(|one| is_open(one));
    let mut open = Open::of(open.map(|one| one.client.is_taken()), plan.idle_open());
    let opening = connections.iter().filter(|one| !one.is_closed() && !is_open(one)).count();
    open.begun = plan.connections_begun - opening as u64;
    open.first_connect_ns = plan.first_connect_ns;
    let oldest_ns = connections.iter().filter_map(|one| one.client.oldest_ns()).min();
    context.recorder.leave(open, oldest_ns, context.dispatcher);
}
