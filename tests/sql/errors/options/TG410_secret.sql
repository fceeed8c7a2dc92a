-- TG410
-- at 7:5
-- message: properties.ssl.key.password is a secret
-- hint: ${SSL_KEY_PASSWORD}
CREATE SOURCE s (id INT) WITH (
    connector = 'kafka', topic = 'orders', properties.bootstrap.server = 'localhost:9093',
    properties.ssl.key.password
        = 'hunter2'
) FORMAT PLAIN ENCODE JSON;
