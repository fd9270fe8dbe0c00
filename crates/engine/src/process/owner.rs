//! The owner of a port in use, as `ss -ltnp` would show it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The name and pid of a process that listens on the port of `address`, if this user may see it.
pub(crate) fn of_port(address: SocketAddr) -> Option<(String, u32)> {
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening_inodes(&table, address.port()))
        .collect();
    let sockets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let pid = fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        holds(&entry.path(), &sockets).then_some(pid)
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some((name.trim().to_owned(), pid))
}

/// The inodes of the sockets that listen on `port`, from a table in the format of `/proc/net/tcp`.
fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
            let ours = u16::from_str_radix(local_port, 16) == Ok(port) && *fields.get(3)? == LISTEN;
            ours.then(|| fields.get(9)?.parse().ok()).flatten()
        })
        .collect()
}

/// Whether the process of this `/proc` folder has one of these sockets open.
fn holds(process: &Path, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|target| {
            sockets.iter().any(|socket| socket.as_bytes() == target.as_os_str().as_bytes())
        })
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41301 1 0000 100 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 41302 1 0000 20 4
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0000 100 0
";

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        check(8080, &[41301]);
        check(22, &[100]);
        check(50000, &[]);
    }

    #[test]
    fn the_owner_of_a_port_of_this_process_is_this_process() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let (_, pid) = of_port(address).expect("a process can see itself");
        assert_eq!(pid, std::process::id());
    }

    fn check(port: u16, expected: &[u64]) {
        assert_eq!(listening_inodes(TABLE, port), expected, "port {port}");
    }
}
