//! The flags of TLS.

use std::path::PathBuf;

use clap::Args;
use contract::Tls;

use crate::failure::Failure;
use crate::spec::url::Url;

#[derive(Args, Debug)]
pub(crate) struct TlsFlags {
    /// The name to ask for (SNI) and to expect in the server's certificate [default: the host of the address]
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,

    /// A PEM file of trusted certificate authorities [default: those of this machine]
    #[arg(long, value_name = "PATH", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,

    /// Do not check the server's certificate.
    #[arg(long)]
    insecure: bool,
}

impl TlsFlags {
    /// The TLS settings for this server, if it uses TLS.
    ///
    /// # Errors
    /// If a flag is given without TLS.
    pub(crate) fn of(&self, url: &Url) -> Result<Option<Tls>, Failure> {
        let Self { server_name, cacert, insecure } = self;
        if url.tls {
            let server_name = server_name.as_ref().unwrap_or(&url.host).clone();
            return Ok(Some(Tls { server_name, cacert: cacert.clone(), insecure: *insecure }));
        }
        let flags = [
            ("--server-name", server_name.is_some()),
            ("--cacert", cacert.is_some()),
            ("--insecure", *insecure),
        ];
        match flags.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(Failure::request("bad_flag", format!("{flag} goes with https:// or tls://")))
            }
            None => Ok(None),
        }
    }
}
