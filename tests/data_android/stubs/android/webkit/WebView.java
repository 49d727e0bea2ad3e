package android.webkit;

import android.net.Uri;
import java.math.BigInteger;
import java.security.MessageDigest;

public class WebView extends android.view.View {
    private WebViewClient client = new WebViewClient();
    private String address = "";

    public WebView(android.content.Context context) {
        super(context);
    }

    public WebSettings getSettings() {
        return new WebSettings();
    }

    public void setWebViewClient(WebViewClient client) {
        this.client = client;
    }

    public void loadUrl(String address) {
        this.address = address;
    }

    /** Status, type and digest of what the client answers to each address, which may be relative to the page's. */
    public String answers(String... addresses) throws Exception {
        StringBuilder lines = new StringBuilder();
        for (String other : addresses) {
            String whole = java.net.URI.create(address).resolve(other).toString();
            WebResourceResponse found = client.shouldInterceptRequest(this, () -> Uri.parse(whole));
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(found.getData().readAllBytes());
            String hex = String.format("%064x", new BigInteger(1, digest));
            lines.append(found.getStatusCode() + " " + found.getMimeType() + " " + hex + "\n");
        }
        return lines.toString();
    }
}
