<?php

/** A server of many connections, with two ways to wait for them. */

declare(strict_types=1);

const BACKLOG = 4096;
const RECEIVE_BYTES = 16384;

abstract class Server
{
    /** @var array<int, Session> The connections, by an id that each way of waiting assigns. */
    protected array $sessions = [];
    /** @var array<int, string> What a full socket did not take. The connection is not read until it is sent. */
    protected array $unsent = [];

    public function __construct(protected readonly Closure $session)
    {
    }

    abstract public function serve(): never;

    /** The received bytes; '' if there are none, null at the end of the stream. */
    abstract protected function receive(int $id): ?string;

    /** How many bytes the socket took; null if the connection is broken. */
    abstract protected function send(int $id, string $bytes): ?int;

    /** Waits for room to send, or, with $on false, for bytes to receive again. */
    abstract protected function wait_for_room(int $id, bool $on): void;

    abstract protected function close(int $id): void;

    protected function on_readable(int $id): void
    {
        $bytes = $this->receive($id);
        if ($bytes === null) {
            $this->end($id);
        } elseif ($bytes !== '' && ($replies = $this->sessions[$id]->advance($bytes)) !== '') {
            $this->reply($id, $replies);
        }
    }

    protected function on_writable(int $id): void
    {
        $this->reply($id, $this->unsent[$id]);
    }

    private function reply(int $id, string $bytes): void
    {
        $sent = $this->send($id, $bytes);
        if ($sent !== null && $sent < strlen($bytes)) {
            if (!isset($this->unsent[$id])) {
                $this->wait_for_room($id, true);
            }
            $this->unsent[$id] = substr($bytes, $sent);
        } elseif ($sent === null || $this->sessions[$id]->ends) {
            $this->end($id);
        } elseif (isset($this->unsent[$id])) {
            unset($this->unsent[$id]);
            $this->wait_for_room($id, false);
        }
    }

    private function end(int $id): void
    {
        unset($this->sessions[$id], $this->unsent[$id]);
        $this->close($id);
    }
}

/**
 * Every call passes the whole set of connections to the kernel, which returns those that are ready.
 *
 * Only descriptors up to 1023 work, so a process holds about a thousand connections.
 */
final class StreamSelect extends Server
{
    // PHP itself uses some of the 1024 descriptors.
    private const CONNECTIONS_MAX = 1010;

    private readonly mixed $listener;
    /** @var array<int, resource> All connections, and the sets to wait for. */
    private array $streams = [];
    private array $readers = [];
    private array $writers = [];

    public function __construct(string $address, Closure $session)
    {
        parent::__construct($session);
        $options = stream_context_create(['socket' => ['backlog' => BACKLOG, 'tcp_nodelay' => true]]);
        $flags = STREAM_SERVER_BIND | STREAM_SERVER_LISTEN;
        $this->listener = @stream_socket_server("tcp://$address", $error, $message, $flags, $options);
        if ($this->listener === false) {
            give_up("$address: $message");
        }
        stream_set_blocking($this->listener, false);
        $this->readers[(int) $this->listener] = $this->listener;
    }

    public function serve(): never
    {
        while (true) {
            [$readable, $writable, $none] = [$this->readers, $this->writers, null];
            stream_select($readable, $writable, $none, null);
            foreach ($readable as $id => $stream) {
                $stream === $this->listener ? $this->accept() : $this->on_readable($id);
            }
            foreach ($writable as $id => $_) {
                $this->on_writable($id);
            }
        }
    }

    private function accept(): void
    {
        // Another worker may have accepted the connection first; that is no error.
        while (($stream = @stream_socket_accept($this->listener, 0)) !== false) {
            if (count($this->streams) === self::CONNECTIONS_MAX) {
                give_up('stream_select() holds ' . self::CONNECTIONS_MAX . ' connections: use fewer, or wait=libevent');
            }
            stream_set_blocking($stream, false);
            stream_set_read_buffer($stream, 0);
            $this->streams[(int) $stream] = $this->readers[(int) $stream] = $stream;
            $this->sessions[(int) $stream] = ($this->session)();
        }
    }

    protected function receive(int $id): ?string
    {
        $bytes = @fread($this->streams[$id], RECEIVE_BYTES);
        return $bytes === false || ($bytes === '' && feof($this->streams[$id])) ? null : $bytes;
    }

    protected function send(int $id, string $bytes): ?int
    {
        $sent = @fwrite($this->streams[$id], $bytes);
        return $sent === false ? null : $sent;
    }

    protected function wait_for_room(int $id, bool $on): void
    {
        unset($this->readers[$id], $this->writers[$id]);
        $on ? $this->writers[$id] = $this->streams[$id] : $this->readers[$id] = $this->streams[$id];
    }

    protected function close(int $id): void
    {
        fclose($this->streams[$id]);
        unset($this->streams[$id], $this->readers[$id], $this->writers[$id]);
    }
}

/**
 * libevent returns only the connections that are ready. It is called through PHP's FFI, because Debian packages no
 * extension for it; the ids of connections are their descriptors.
 */
final class Libevent extends Server
{
    private const LIBRARY = 'libevent_core-2.1.so.7';
    // As in event.h, listener.h, and the headers of Linux.
    private const EV_READ = 0x02, EV_WRITE = 0x04, EV_PERSIST = 0x10;
    private const LEV_OPT_CLOSE_ON_FREE = 0x02, LEV_OPT_REUSEABLE = 0x08;
    private const IPPROTO_TCP = 6, TCP_NODELAY = 1, MSG_NOSIGNAL = 0x4000, EAGAIN = 11;
    private const DECLARATIONS = <<<'C'
        struct event_base;
        struct event;
        struct evconnlistener;
        struct callbacks {
            void (*accepted)(struct evconnlistener *, int, void *, int, void *);
            void (*ready)(int, short, void *);
        };
        const char *event_get_version(void);
        struct event_base *event_base_new(void);
        int event_reinit(struct event_base *);
        int event_base_dispatch(struct event_base *);
        int evutil_parse_sockaddr_port(const char *, char *, int *);
        struct evconnlistener *evconnlistener_new_bind(
            struct event_base *, void (*)(struct evconnlistener *, int, void *, int, void *), void *,
            unsigned, int, const char *, int);
        struct event *event_new(struct event_base *, int, short, void (*)(int, short, void *), void *);
        int event_add(struct event *, void *);
        int event_del(struct event *);
        void event_free(struct event *);
        int setsockopt(int, int, int, const int *, unsigned);
        ssize_t recv(int, char *, size_t, int);
        ssize_t send(int, const char *, size_t, int);
        int close(int);
        int *__errno_location(void);
        C;

    private readonly FFI $c;
    private readonly FFI\CData $base;
    private readonly FFI\CData $callbacks;
    private readonly FFI\CData $buffer;
    private readonly FFI\CData $on;
    /** @var array<int, array{FFI\CData, FFI\CData}> The events of each connection: readable, writable. */
    private array $events = [];

    public function __construct(string $address, Closure $session)
    {
        parent::__construct($session);
        $this->c = FFI::cdef(self::DECLARATIONS, self::LIBRARY);
        $this->base = $this->c->event_base_new();
        $this->buffer = $this->c->new('char[' . RECEIVE_BYTES . ']');
        $this->on = $this->c->new('int[1]');
        $this->on[0] = 1;
        // Callbacks passed to C live until the process ends, so each is passed only once.
        $this->callbacks = $this->c->new('struct callbacks');
        $this->callbacks->accepted = $this->accept(...);
        $this->callbacks->ready = function (int $id, int $what): void {
            $what & self::EV_READ ? $this->on_readable($id) : $this->on_writable($id);
        };
        $this->listen($address);
    }

    public static function version(): string
    {
        try {
            return 'libevent ' . FFI::cdef(self::DECLARATIONS, self::LIBRARY)->event_get_version();
        } catch (FFI\Exception) {
            return 'without libevent';
        }
    }

    public function serve(): never
    {
        $this->c->event_reinit($this->base);
        $this->c->event_base_dispatch($this->base);
        exit(1);
    }

    private function listen(string $address): void
    {
        $place = $this->c->new('char[128]');
        $length = $this->c->new('int[1]');
        $length[0] = FFI::sizeof($place);
        $this->c->evutil_parse_sockaddr_port($address, $place, $length);
        $options = self::LEV_OPT_CLOSE_ON_FREE | self::LEV_OPT_REUSEABLE;
        $listener = $this->c->evconnlistener_new_bind(
            $this->base, $this->callbacks->accepted, null, $options, BACKLOG, $place, $length[0]
        );
        if ($listener === null) {
            give_up("$address: cannot listen");
        }
    }

    private function accept(mixed $_, int $id): void
    {
        $this->c->setsockopt($id, self::IPPROTO_TCP, self::TCP_NODELAY, $this->on, FFI::sizeof($this->on));
        $new = fn(int $what) => $this->c->event_new(
            $this->base, $id, $what | self::EV_PERSIST, $this->callbacks->ready, null
        );
        $this->events[$id] = [$new(self::EV_READ), $new(self::EV_WRITE)];
        $this->c->event_add($this->events[$id][0], null);
        $this->sessions[$id] = ($this->session)();
    }

    protected function receive(int $id): ?string
    {
        $received = $this->c->recv($id, $this->buffer, RECEIVE_BYTES, 0);
        if ($received > 0) {
            return FFI::string($this->buffer, $received);
        }
        return $received < 0 && $this->must_wait() ? '' : null;
    }

    protected function send(int $id, string $bytes): ?int
    {
        $sent = $this->c->send($id, $bytes, strlen($bytes), self::MSG_NOSIGNAL);
        return $sent >= 0 ? $sent : ($this->must_wait() ? 0 : null);
    }

    private function must_wait(): bool
    {
        return $this->c->__errno_location()[0] === self::EAGAIN;
    }

    protected function wait_for_room(int $id, bool $on): void
    {
        [$readable, $writable] = $this->events[$id];
        $this->c->event_del($on ? $readable : $writable);
        $this->c->event_add($on ? $writable : $readable, null);
    }

    protected function close(int $id): void
    {
        foreach ($this->events[$id] as $event) {
            $this->c->event_free($event);
        }
        unset($this->events[$id]);
        $this->c->close($id);
    }
}
