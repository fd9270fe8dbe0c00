<?php

/** The server's protocols without I/O: takes bytes, returns the replies, and knows when the connection ends. */

declare(strict_types=1);

abstract class Session
{
    /** Whether the connection ends once the last reply is sent. */
    public bool $ends = false;

    /** The received part of an incomplete request. */
    protected string $rest = '';

    /** The replies to all requests that these bytes complete. */
    abstract public function advance(string $bytes): string;
}

/** Sends lines back unchanged. */
final class Line extends Session
{
    private const BYTES_MAX = 4096;

    public function advance(string $bytes): string
    {
        $input = $this->rest . $bytes;
        $begin = 0;
        while (($end = strpos($input, "\n", $begin)) !== false && $end - $begin < self::BYTES_MAX) {
            $begin = $end + 1;
        }
        $this->rest = substr($input, $begin);
        $replies = substr($input, 0, $begin);
        if (strlen($this->rest) < self::BYTES_MAX) {
            return $replies;
        }
        $this->ends = true;
        return $replies . 'error: a line has at most ' . self::BYTES_MAX . " bytes\n";
    }
}

/** One page, and a proper error for everything else. */
final class Http extends Session
{
    private const HEAD_BYTES_MAX = 16384;
    private const REASONS = [200 => 'OK', 400 => 'Bad Request', 404 => 'Not Found', 501 => 'Not Implemented'];
    private const REQUEST = '~\A([A-Z]+) (\S+) HTTP/1\.([01])((?:\r\n[!#-\'*+.^-z|\~0-9A-Z-]+:[^\r\n]*)*)\z~';

    private readonly string $body;

    public function __construct(int $reply_bytes)
    {
        $this->body = str_repeat('x', $reply_bytes);
    }

    public function advance(string $bytes): string
    {
        $this->rest .= $bytes;
        $replies = '';
        while (!$this->ends && ($end = strpos($this->rest, "\r\n\r\n")) !== false) {
            $head = substr($this->rest, 0, $end);
            [$status, $body_bytes, $ends] = self::judged($head);
            if (strlen($this->rest) < $end + 4 + $body_bytes) {
                return $replies;
            }
            $this->rest = substr($this->rest, $end + 4 + $body_bytes);
            $this->ends = $ends;
            $replies .= $this->reply($status, str_starts_with($head, 'HEAD '));
        }
        if (!$this->ends && strlen($this->rest) > self::HEAD_BYTES_MAX) {
            $this->ends = true;
            $replies .= $this->reply(400, false);
        }
        return $replies;
    }

    /** The status for a request head, the length of its body, and whether the connection ends. */
    private static function judged(string $head): array
    {
        if (preg_match(self::REQUEST, $head, $request) !== 1) {
            return [400, 0, true];
        }
        [, , $target, $minor, $fields] = $request;
        $length = preg_match('~\r\ncontent-length:[ \t]*(\S*)~i', $fields, $found) === 1 ? $found[1] : '0';
        $has_host = preg_match('~\r\nhost:~i', $fields) === 1;
        if (preg_match('~\A\d{1,9}\z~', $length) !== 1 || ($minor === '1' && !$has_host)) {
            return [400, 0, true];
        }
        if (preg_match('~\r\ntransfer-encoding:~i', $fields) === 1) {
            return [501, 0, true];
        }
        $ends = $minor === '0' || preg_match('~\r\nconnection:[ \t]*close~i', $fields) === 1;
        return [$target === '/' ? 200 : 404, (int) $length, $ends];
    }

    /** The head has the fields that the engine's servers send. */
    private function reply(int $status, bool $is_head): string
    {
        $body = $status === 200 ? $this->body : '';
        $fields = [
            "HTTP/1.1 $status " . self::REASONS[$status],
            'Server: php',
            'Date: ' . gmdate('D, d M Y H:i:s') . ' GMT',
            'Content-Type: text/plain',
            'Content-Length: ' . strlen($body),
            ...($this->ends ? ['Connection: close'] : []),
        ];
        return implode("\r\n", $fields) . "\r\n\r\n" . ($is_head ? '' : $body);
    }
}
