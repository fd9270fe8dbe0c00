# A pool of threads in each worker. Open but idle connections occupy no thread.
bind = "{host}:{port}"
workers = int("{workers}")
worker_class = "gthread"
threads = int("{threads}")
worker_connections = 65536
backlog = 4096
keepalive = 3600
graceful_timeout = 1
loglevel = "critical"
chdir = "{folder}"
raw_env = ["REPLY_BYTES={reply_bytes}"]
# Versions with a control socket would leave a folder in the user's home.
control_socket_disable = True
