import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Servers on virtual threads: {@code java Server http|echo|line HOST PORT REPLY_BYTES}. HTTP is the JDK's own server
 * with a virtual thread for each request, echo and line have one for each connection. Without arguments it prints the
 * version of Java.
 */
public final class Server {
    private static final int BACKLOG = 4096;
    private static final int LINE_BYTES_MAX = 4096;
    private static final byte[] REFUSAL =
            ("error: a line has at most " + LINE_BYTES_MAX + " bytes\n").getBytes(StandardCharsets.US_ASCII);

    private interface Conversation {
        void hold(InputStream input, OutputStream output) throws IOException;
    }

    public static void main(String[] arguments) throws IOException {
        var virtualThreads = virtualThreads();
        if (arguments.length == 0) {
            System.out.println("Java " + Runtime.version() + ", " + System.getProperty("java.vendor"));
            return;
        }
        var address = InetAddress.getByName(arguments[1]);
        int port = Integer.parseInt(arguments[2]);
        switch (arguments[0]) {
            case "http" -> {
                serveHttp(new InetSocketAddress(address, port), Integer.parseInt(arguments[3]), virtualThreads);
            }
            case "echo" -> serve(new ServerSocket(port, BACKLOG, address), Server::echo, virtualThreads);
            case "line" -> serve(new ServerSocket(port, BACKLOG, address), Server::line, virtualThreads);
            default -> throw new IllegalArgumentException("there is no protocol " + arguments[0]);
        }
    }

    /** A virtual thread for each task. Looked up by name, so that an older Java can report that it has none. */
    private static ExecutorService virtualThreads() {
        try {
            return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (ReflectiveOperationException absent) {
            System.err.println("needs Java 21 or later, and this is " + Runtime.version().feature());
            System.exit(1);
            return null;
        }
    }

    /** Answers / with a body and every other path with 404. The JDK's server adds Date. */
    private static void serveHttp(InetSocketAddress address, int replyBytes, ExecutorService threads)
            throws IOException {
        var body = "x".repeat(replyBytes).getBytes(StandardCharsets.US_ASCII);
        var server = HttpServer.create(address, BACKLOG);
        server.setExecutor(threads);
        server.createContext("/", exchange -> answer(exchange, body));
        server.start();
    }

    private static void answer(HttpExchange exchange, byte[] body) throws IOException {
        try (exchange) {
            var head = exchange.getResponseHeaders();
            head.set("Server", "java");
            head.set("Content-Type", "text/plain");
            if (!exchange.getRequestURI().getPath().equals("/")) {
                exchange.sendResponseHeaders(404, -1);
            } else if (exchange.getRequestMethod().equals("HEAD")) {
                head.set("Content-Length", String.valueOf(body.length));
                exchange.sendResponseHeaders(200, -1);
            } else {
                // To the JDK's server, 0 means a chunked body and -1 no body.
                exchange.sendResponseHeaders(200, body.length == 0 ? -1 : body.length);
                exchange.getResponseBody().write(body);
            }
        }
    }

    private static void serve(ServerSocket listener, Conversation conversation, ExecutorService threads)
            throws IOException {
        while (true) {
            var socket = listener.accept();
            threads.execute(() -> converse(socket, conversation));
        }
    }

    private static void converse(Socket socket, Conversation conversation) {
        try (socket) {
            socket.setTcpNoDelay(true);
            conversation.hold(socket.getInputStream(), socket.getOutputStream());
        } catch (IOException broken) {
            // The peer has gone; only this connection ends.
        }
    }

    private static void echo(InputStream input, OutputStream output) throws IOException {
        var buffer = new byte[4096];
        for (int received; (received = input.read(buffer)) >= 0; ) {
            output.write(buffer, 0, received);
        }
    }

    /** Sends back each line. Only an incomplete line stays in the buffer. */
    private static void line(InputStream input, OutputStream output) throws IOException {
        var buffer = new byte[LINE_BYTES_MAX];
        int held = 0;
        for (int received; (received = input.read(buffer, held, buffer.length - held)) >= 0; ) {
            int whole = endOfLines(buffer, held, held + received);
            held += received - whole;
            output.write(buffer, 0, whole);
            System.arraycopy(buffer, whole, buffer, 0, held);
            if (held == buffer.length) {
                output.write(REFUSAL);
                return;
            }
        }
    }

    /** The end of the last complete line; 0 if there is none. The first {@code seen} bytes hold no line end. */
    private static int endOfLines(byte[] bytes, int seen, int length) {
        int end = length;
        while (end > seen && bytes[end - 1] != '\n') {
            end--;
        }
        return end > seen ? end : 0;
    }
}
