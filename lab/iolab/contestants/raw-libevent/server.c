/* A raw echo server on libevent: one thread, and for each connection a persistent event that calls recv() and send().
 * `raw-libevent PORT` serves; without a port it prints libevent's version and how it waits.
 *
 * No bufferevents, which would copy every byte twice. Bytes that a full socket does not take are kept, and the
 * connection is not read until they are sent. */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/listener.h>

enum { BUFFER_BYTES = 16 * 1024 };

struct connection {
    struct event *readable;
    struct event *writable; /* Added while there are unsent bytes. */
    char *unsent;           /* NULL, or an owned block of memory. */
    size_t unsent_bytes;
    size_t unsent_begin;
};

static void on_accept(struct evconnlistener *, evutil_socket_t, struct sockaddr *, int, void *);
static void on_readable(evutil_socket_t, short, void *);
static void on_writable(evutil_socket_t, short, void *);
static void keep(struct connection *, const char *, size_t);
static void end(struct connection *);
static int must_wait(void);
static void *or_die(void *, const char *);

int main(int count, char **arguments) {
    struct event_base *base = or_die(event_base_new(), "event_base_new");
    if (count != 2) {
        printf("libevent %s, %s\n", event_get_version(), event_base_get_method(base));
        return 0;
    }
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((in_port_t)atoi(arguments[1])),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    or_die(evconnlistener_new_bind(base, on_accept, base, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, SOMAXCONN,
                                   (struct sockaddr *)&address, sizeof address),
           "evconnlistener_new_bind");
    return event_base_dispatch(base) == 0 ? 0 : 1;
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *peer, int length,
                      void *base) {
    (void)listener, (void)peer, (void)length;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *connection = or_die(calloc(1, sizeof *connection), "calloc");
    connection->readable = or_die(event_new(base, fd, EV_READ | EV_PERSIST, on_readable, connection), "event_new");
    connection->writable = or_die(event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, connection), "event_new");
    event_add(connection->readable, NULL);
}

/* Sends back what was received. One recv() for each event: the loop reports any further bytes again. */
static void on_readable(evutil_socket_t fd, short events, void *argument) {
    (void)events;
    /* Shared by all connections: nothing stays in it between events. */
    static char buffer[BUFFER_BYTES];
    struct connection *connection = argument;
    const ssize_t received = recv(fd, buffer, sizeof buffer, 0);
    if (received <= 0) {
        if (received == 0 || !must_wait()) end(connection);
        return;
    }
    ssize_t sent = send(fd, buffer, (size_t)received, MSG_NOSIGNAL);
    if (sent == received) return;
    if (sent < 0) {
        if (!must_wait()) {
            end(connection);
            return;
        }
        sent = 0;
    }
    keep(connection, buffer + sent, (size_t)(received - sent));
}

static void on_writable(evutil_socket_t fd, short events, void *argument) {
    (void)events;
    struct connection *connection = argument;
    const size_t left = connection->unsent_bytes - connection->unsent_begin;
    const ssize_t sent = send(fd, connection->unsent + connection->unsent_begin, left, MSG_NOSIGNAL);
    if (sent < 0) {
        if (!must_wait()) end(connection);
        return;
    }
    connection->unsent_begin += (size_t)sent;
    if (connection->unsent_begin < connection->unsent_bytes) return;
    free(connection->unsent);
    connection->unsent = NULL;
    event_del(connection->writable);
    event_add(connection->readable, NULL);
}

/* Keeps the bytes that the socket did not take, and waits for room to send instead of for input. */
static void keep(struct connection *connection, const char *bytes, size_t length) {
    connection->unsent = or_die(malloc(length), "malloc");
    memcpy(connection->unsent, bytes, length);
    connection->unsent_bytes = length;
    connection->unsent_begin = 0;
    event_del(connection->readable);
    event_add(connection->writable, NULL);
}

static void end(struct connection *connection) {
    const evutil_socket_t fd = event_get_fd(connection->readable);
    event_free(connection->readable);
    event_free(connection->writable);
    close(fd);
    free(connection->unsent);
    free(connection);
}

/* Whether a failed call can be repeated once the socket is ready. */
static int must_wait(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static void *or_die(void *made, const char *what) {
    if (made == NULL) {
        perror(what);
        exit(1);
    }
    return made;
}
