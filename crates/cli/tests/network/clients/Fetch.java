// SPDX-License-Identifier: Apache-2.0 OR MIT
import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Gets a URL over TLS by one of Java's two clients. */
class Fetch {
    public static void main(String[] words) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (var file = new FileInputStream(System.getenv("CA"))) {
            store.setCertificateEntry("test", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        var tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        var url = URI.create(words[1]);
        if (words[0].equals("client")) {
            var client = HttpClient.newBuilder().sslContext(tls).build();
            System.out.println(client.send(HttpRequest.newBuilder(url).build(), BodyHandlers.ofString()).body());
        } else {
            var connection = (HttpsURLConnection) url.toURL().openConnection();
            connection.setSSLSocketFactory(tls.getSocketFactory());
            System.out.println(new String(connection.getInputStream().readAllBytes()));
        }
    }
}
