//! The contract's workloads as the protocols use them: checked, built, and alive as long as the process.

use std::time::Instant;

use contract::{Address, Echo, Framing, Http, Line, ReplyStatus, Role, Rpc, Verify, Workload};
use proto::{Protocol, echo, http, line, rpc, work};

use crate::failure::Failure;

/// The names of all protocols.
pub(crate) const PROTOCOLS: [&str; 4] =
    [http::Http::NAME, echo::Echo::NAME, line::Line::NAME, rpc::Rpc::NAME];

/// Code that is generic over the protocol.
pub(crate) trait Visit {
    type Output;

    fn visit<P: Protocol>(self, workload: &'static P::Workload) -> Result<Self::Output, Failure>;
}

/// Chooses the protocol: the one place where a word becomes a type. `address` is the HTTP Host if the workload has
/// none.
///
/// # Errors
/// `bad_workload`: an invalid length or text; and those of the visitor.
pub(crate) fn dispatch<V: Visit>(
    workload: &Workload,
    address: &Address,
    role: Role,
    visitor: V,
) -> Result<V::Output, Failure> {
    match workload {
        Workload::Http(workload) => visitor.visit::<http::Http>(http(workload, address)?),
        Workload::Echo(workload) => visitor.visit::<echo::Echo>(echo(workload)?),
        Workload::Line(Line { message_bytes }) => {
            visitor.visit::<line::Line>(made(line::Workload::new(*message_bytes))?)
        }
        Workload::Rpc(workload) => visitor.visit::<rpc::Rpc>(rpc(workload, role)?),
    }
}

fn http(workload: &Http, address: &Address) -> Result<&'static http::Workload, Failure> {
    let host = workload.host.clone().unwrap_or_else(|| match &address.0 {
        sys::net::Address::Ip(address) => address.to_string(),
        sys::net::Address::Unix(_) => "localhost".into(),
    });
    let verify = match workload.verify {
        Verify::Bytes => http::Verify::Bytes,
        Verify::Status => http::Verify::Status,
    };
    let request = http::Request {
        method: &workload.method,
        headers: &workload.headers,
        body: workload.body.as_bytes(),
        expect_status: workload.expect_status,
        expect_body: workload.expect_body.as_deref().map(str::as_bytes),
    };
    let composed =
        http::Workload::new(workload.reply_bytes, &workload.target, &host, workload.keep_alive, verify)
            .and_then(|composed| composed.requesting(&request))
            .and_then(|composed| match workload.reply_status {
                ReplyStatus::Ok => Ok(composed),
                ReplyStatus::NoContent => composed.without_content(),
            });
    made(composed)
}

fn echo(workload: &Echo) -> Result<&'static echo::Workload, Failure> {
    let framing = match workload.framing {
        Framing::Raw => echo::Framing::Raw,
        Framing::Prefix => echo::Framing::Prefix,
        Framing::Crlf => echo::Framing::Crlf,
    };
    made(echo::Workload::new(framing, workload.message_bytes))
}

fn rpc(workload: &Rpc, role: Role) -> Result<&'static rpc::Workload, Failure> {
    // Only the server computes.
    let work_steps = if role == Role::Serve { steps_in(workload.work_ns) } else { 0 };
    made(rpc::Workload::new(workload.target, workload.text_bytes, work_steps))
}

/// How many steps of computing take this long on this processor, by the fastest of several tries: the others were
/// disturbed.
fn steps_in(work_ns: u64) -> u32 {
    const STEPS: u32 = 100_000;
    const TRIES: usize = 9;
    if work_ns == 0 {
        return 0;
    }
    let try_once = || {
        let begin = Instant::now();
        work::spin(STEPS);
        begin.elapsed().as_nanos().max(1) as u64
    };
    let fastest_ns = (0..TRIES).map(|_| try_once()).min().expect("there is at least one try");
    u32::try_from(work_ns * u64::from(STEPS) / fastest_ns).unwrap_or(u32::MAX)
}

fn made<W>(workload: Result<W, impl Into<String>>) -> Result<&'static W, Failure> {
    workload.map(forever).map_err(|message| Failure::request("bad_workload", message))
}

/// Gives a value to the whole process. There is one for each process, so nothing is lost.
pub(crate) fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
