<?php

/**
 * A line server and a web server in PHP:
 * `server.php line|http HOST:PORT stream_select|libevent WORKERS thread|process REPLY_BYTES`.
 *
 * Workers are processes that accept from one queue. Both ways to wait drive the same program. Without arguments it
 * prints the versions of PHP and libevent.
 */

declare(strict_types=1);

require __DIR__ . '/sessions.php';
require __DIR__ . '/waits.php';

if ($argc !== 7) {
    echo 'PHP ', PHP_VERSION, ', ', Libevent::version(), "\n";
    exit($argc === 1 ? 0 : 2);
}
[, $protocol, $address, $wait, $workers, $worker_kind, $reply_bytes] = $argv;
if ($workers > 1 && $worker_kind === 'thread') {
    give_up('PHP has no threads: set worker_kind to process');
}
$session = $protocol === 'line' ? fn() => new Line() : fn() => new Http((int) $reply_bytes);
$server = $wait === 'libevent' ? new Libevent($address, $session) : new StreamSelect($address, $session);
spread((int) $workers, $server->serve(...));

/** Serves in this process, or in several processes that end with this one. */
function spread(int $workers, Closure $serve): void
{
    if ($workers === 1) {
        $serve();
    }
    // Blocked, and waited for once all workers are known. When one ends, all others are ended too.
    pcntl_sigprocmask(SIG_BLOCK, [SIGTERM, SIGCHLD]);
    $children = [];
    for ($begun = 0; $begun < $workers; $begun++) {
        $child = pcntl_fork();
        if ($child === 0) {
            pcntl_sigprocmask(SIG_UNBLOCK, [SIGTERM, SIGCHLD]);
            $serve();
        }
        $children[] = $child;
    }
    pcntl_sigwaitinfo([SIGTERM, SIGCHLD]);
    foreach ($children as $child) {
        posix_kill($child, SIGTERM);
    }
}

function give_up(string $why): never
{
    fwrite(STDERR, "$why\n");
    exit(1);
}
