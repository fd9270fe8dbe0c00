<?php

/**
 * The two clients of the note S3, as a load:
 * `line_client.php --address HOST:PORT --connections N [--processes N] [--requests-per-connection N] [--duration-ms N]
 * [--message-bytes N]`.
 *
 * `--connections 2 --processes 2 --requests-per-connection 100` is "few connections": each process connects, sends a
 * hundred lines, closes, and begins again. `--connections 1000` is "many connections": one process keeps them all, and
 * sends a line over one after the other. A process waits for each reply before it sends the next line, so as many
 * requests are in flight as there are processes. The note's clients run forever; these end after the given time.
 *
 * Prints what each process did, and finally a line of JSON for iolab. The first error ends a process and counts as a
 * failed request.
 */

declare(strict_types=1);

// How long a client waits for a reply.
const ANSWER_S_MAX = 5;
const FLAGS = [
    '--address' => '',
    '--connections' => 1,
    '--processes' => 1,
    '--requests-per-connection' => 0,
    '--duration-ms' => 10000,
    '--message-bytes' => 12,
];

/** A failed step, and why. */
final class Failed extends Exception
{
}

/** The connections of a process, and its counts. */
final class Client
{
    public int $connections = 0;
    public int $requests = 0;

    /** @var list<resource> */
    private array $streams = [];
    /** @var list<int> The requests of each connection. */
    private array $served = [];

    public function __construct(
        private readonly string $address,
        private readonly string $line,
        private readonly int $count,
        private readonly int $requests_per_connection,
    ) {
    }

    /** Opens all connections; throws Failed. */
    public function connect(): void
    {
        for ($slot = 0; $slot < $this->count; $slot++) {
            $this->open($slot);
        }
    }

    /** Sends lines over each connection in turn until a deadline; throws Failed. */
    public function converse(int $end_ns): void
    {
        for ($slot = 0; hrtime(true) < $end_ns; $slot = ($slot + 1) % $this->count) {
            $this->request($slot);
            if (++$this->served[$slot] === $this->requests_per_connection) {
                $this->close($slot);
                $this->open($slot);
            }
        }
    }

    /** Closes all connections; throws Failed. */
    public function disconnect(): void
    {
        array_map($this->close(...), array_keys($this->streams));
    }

    private function open(int $slot): void
    {
        $stream = @stream_socket_client("tcp://$this->address", $code, $message, ANSWER_S_MAX);
        if ($stream === false) {
            throw new Failed("connect to $this->address: $message");
        }
        stream_set_timeout($stream, ANSWER_S_MAX);
        $this->streams[$slot] = $stream;
        $this->served[$slot] = 0;
        $this->connections++;
    }

    private function request(int $slot): void
    {
        if (@fwrite($this->streams[$slot], $this->line) !== strlen($this->line)) {
            throw new Failed('send: the connection is broken');
        }
        $reply = fgets($this->streams[$slot]);
        if ($reply === false) {
            $is_late = stream_get_meta_data($this->streams[$slot])['timed_out'];
            throw new Failed('receive: ' . ($is_late ? 'no reply in ' . ANSWER_S_MAX . ' s' : 'the server closed'));
        }
        if ($reply !== $this->line) {
            throw new Failed('receive: a wrong reply');
        }
        $this->requests++;
    }

    private function close(int $slot): void
    {
        if (!fclose($this->streams[$slot])) {
            throw new Failed('close');
        }
    }
}

$asked = arguments(array_slice($argv, 1));
$reports = in_processes($asked);
$began_ns = min(array_column($reports, 'began_ns'));
foreach ($reports as $number => $report) {
    printf("client %d: %d connections, %d requests\n", $number, $report['connections'], $report['requests']);
    if ($report['failed'] !== '') {
        fwrite(STDERR, "client $number: {$report['failed']}\n");
    }
}
$requests = array_sum(array_column($reports, 'requests'));
if ($requests === 0) {
    give_up('no line was answered', 1);
}
echo json_encode([
    'requests' => $requests,
    'failed' => count(array_filter(array_column($reports, 'failed'))),
    'elapsed_s' => (max(array_column($reports, 'ended_ns')) - $began_ns) / 1e9,
    'clients_s' => array_map(fn($each) => ($each['ended_ns'] - $each['began_ns']) / 1e9, $reports),
], JSON_PRESERVE_ZERO_FRACTION), "\n";

/** Forks the processes, each with its share of the connections; returns their reports by number. */
function in_processes(array $asked): array
{
    // Blocked, and waited for once all clients are known. SIGTERM ends the clients too.
    pcntl_sigprocmask(SIG_BLOCK, [SIGTERM, SIGCHLD]);
    $pipes = [];
    for ($number = 0; $number < $asked['--processes']; $number++) {
        [$reading, $writing] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = pcntl_fork();
        if ($child === 0) {
            pcntl_sigprocmask(SIG_UNBLOCK, [SIGTERM, SIGCHLD]);
            fwrite($writing, serialize(report($asked, $number)));
            exit(0);
        }
        $pipes[$child] = $reading;
        fclose($writing);
    }
    for ($left = count($pipes); $left > 0; ) {
        if (pcntl_sigwaitinfo([SIGTERM, SIGCHLD]) === SIGTERM) {
            array_map(fn($child) => posix_kill($child, SIGTERM), array_keys($pipes));
            give_up('ended by SIGTERM', 1);
        }
        while (pcntl_waitpid(-1, $status, WNOHANG) > 0) {
            $left--;
        }
    }
    $written = array_map(stream_get_contents(...), array_values($pipes));
    if (in_array('', $written, true)) {
        give_up('a client ended without its figures', 1);
    }
    return array_map(fn($report) => unserialize($report, ['allowed_classes' => false]), $written);
}

/** Runs one process; returns its report. */
function report(array $asked, int $number): array
{
    $text = str_repeat('hello world', intdiv($asked['--message-bytes'], 11) + 1);
    $line = substr($text, 0, $asked['--message-bytes'] - 1) . "\n";
    $share = intdiv($asked['--connections'] + $number, $asked['--processes']);
    $client = new Client($asked['--address'], $line, $share, $asked['--requests-per-connection']);
    $failed = '';
    $began_ns = hrtime(true);
    try {
        $client->connect();
        $began_ns = hrtime(true);
        $client->converse($began_ns + $asked['--duration-ms'] * 1_000_000);
    } catch (Failed $why) {
        $failed = $why->getMessage();
    }
    $ended_ns = hrtime(true);
    try {
        $client->disconnect();
    } catch (Failed $why) {
        $failed = $failed === '' ? $why->getMessage() : $failed;
    }
    return [
        'connections' => $client->connections,
        'requests' => $client->requests,
        'failed' => $failed,
        'began_ns' => $began_ns,
        'ended_ns' => $ended_ns,
    ];
}

/** The values of all flags. */
function arguments(array $words): array
{
    $asked = FLAGS;
    foreach (array_chunk($words, 2) as $pair) {
        [$flag, $value] = $pair + [1 => ''];
        if (!array_key_exists($flag, FLAGS)) {
            give_up("there is no flag $flag: use " . implode(', ', array_keys(FLAGS)), 2);
        }
        $asked[$flag] = $flag === '--address' ? $value : whole_number($flag, $value);
    }
    if ($asked['--address'] === '') {
        give_up('--address is missing: use --address HOST:PORT', 2);
    }
    if ($asked['--processes'] < 1 || $asked['--processes'] > $asked['--connections']) {
        give_up('--processes: use 1 to as many as there are connections', 2);
    }
    if ($asked['--message-bytes'] < 1) {
        give_up('--message-bytes: use 1 or more, with the line feed', 2);
    }
    return $asked;
}

function whole_number(string $flag, string $text): int
{
    $number = filter_var($text, FILTER_VALIDATE_INT, ['options' => ['min_range' => 0]]);
    return $number === false ? give_up("$flag: use a whole number, not '$text'", 2) : $number;
}

function give_up(string $why, int $code): never
{
    fwrite(STDERR, "line_client.php: $why\n");
    exit($code);
}
