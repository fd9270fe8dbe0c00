//! hyper: an HTTP library on tokio. It has its own parser and response builder, so unlike the other models it is
//! compared as a whole.
//!
//! Its replies have the same status, fields and body as ours, with Date last because hyper appends it. Its own refusals
//! have fewer fields, and it accepts some malformed requests that our parser rejects.
//!
//! Its `pipeline_flush` stays off, as by default. It holds a reply back while part of the next request has come, never
//! sends a refusal, and queues replies without limit for a client that does not read. It would only help pipelines.

use std::any::Any;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, SERVER};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use proto::Protocol;
use proto::http::{Answer, ECHO_PATH, Workload};

use crate::runtimes::{self, RUNTIME, Service, Stream, discard};
use crate::workers::Worker;
use crate::{Config, Model};

pub(crate) const MODEL: Model = Model {
    about: "the HTTP library hyper on tokio's runtime",
    options: &[RUNTIME],
    only_protocol: Some("http"),
    parser: "hyper",
    missing_features: runtimes::missing_features,
    moves_connections: runtimes::moves_connections,
    ..Model::DEFAULT
};

/// The buffer of a connection, and so the longest head that hyper accepts. It is the limit of our own parser.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    let workload: &dyn Any = workload;
    let workload = workload.downcast_ref().expect("a model is only asked for a protocol that it speaks");
    runtimes::serve(workers, config, Http { workload })
}

#[derive(Clone, Copy)]
struct Http {
    workload: &'static Workload,
}

impl Service for Http {
    async fn serve<S: Stream>(self, stream: S) {
        let mut builder = Builder::new();
        builder
            .keep_alive(self.workload.keep_alive)
            .half_close(true)
            .title_case_headers(true)
            .max_buf_size(BUFFER_BYTES_MAX);
        let refused = AtomicBool::new(false);
        let service = service_fn(|request| answer(request, self.workload, &refused));
        let mut connection = builder.serve_connection(TokioIo::new(stream), service);
        // An error only ends this connection. But a refused peer must see the reply.
        if (&mut connection).await.is_err() || refused.load(Ordering::Relaxed) {
            discard(connection.into_parts().io.into_inner()).await;
        }
    }
}

type Replied = Result<Response<Full<Bytes>>, Box<dyn Error + Send + Sync>>;

/// Reads a whole request and answers it. Sets `refused` if it refuses the request before its end.
async fn answer(request: Request<Incoming>, workload: &'static Workload, refused: &AtomicBool) -> Replied {
    if request.uri().path() == ECHO_PATH && request.method() == Method::POST {
        return echo(request.into_body(), refused).await;
    }
    let response = response(request.method(), request.uri().path(), workload);
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(response)
}

/// Answers with the body of the request.
async fn echo(body: Incoming, refused: &AtomicBool) -> Replied {
    const BYTES_MAX: usize = Workload::ECHO_BYTES_MAX;
    if body.size_hint().lower() > BYTES_MAX as u64 {
        return Ok(too_long(refused));
    }
    match Limited::new(body, BYTES_MAX).collect().await {
        Ok(whole) => {
            let mut response = reply(StatusCode::OK, whole.to_bytes());
            let content_type = HeaderValue::from_static("application/octet-stream");
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            Ok(response)
        }
        Err(error) if error.is::<LengthLimitError>() => Ok(too_long(refused)),
        Err(error) => Err(error),
    }
}

/// The last reply of a connection whose peer may still be sending.
fn too_long(refused: &AtomicBool) -> Response<Full<Bytes>> {
    refused.store(true, Ordering::Relaxed);
    let mut response = reply(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new());
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn response(method: &Method, path: &str, workload: &'static Workload) -> Response<Full<Bytes>> {
    let methods = if path == ECHO_PATH { "POST, OPTIONS" } else { "GET, HEAD, POST, PUT, OPTIONS" };
    match *method {
        Method::GET | Method::HEAD | Method::POST | Method::PUT => match workload.answer(path) {
            Some(Answer::NoContent) => reply(StatusCode::NO_CONTENT, Bytes::new()),
            Some(Answer::Page { content_type, body }) => {
                let mut response = reply(StatusCode::OK, Bytes::from_static(body));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                response
            }
            None if path == ECHO_PATH => allowing(StatusCode::METHOD_NOT_ALLOWED, methods),
            None => reply(StatusCode::NOT_FOUND, Bytes::new()),
        },
        Method::OPTIONS => allowing(StatusCode::NO_CONTENT, methods),
        Method::DELETE | Method::PATCH | Method::TRACE | Method::CONNECT => {
            allowing(StatusCode::METHOD_NOT_ALLOWED, methods)
        }
        _ => reply(StatusCode::NOT_IMPLEMENTED, Bytes::new()),
    }
}

/// A reply with the allowed methods.
fn allowing(status: StatusCode, methods: &'static str) -> Response<Full<Bytes>> {
    let mut response = reply(status, Bytes::new());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

fn reply(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(SERVER, HeaderValue::from_static("iolab"));
    response
}
