package android.webkit;

import java.io.InputStream;
import java.util.Map;

public class WebResourceResponse {
    private final String type;
    private final int status;
    private final InputStream content;

    public WebResourceResponse(
            String type, String encoding, int status, String reason, Map<String, String> headers, InputStream content) {
        this.type = type;
        this.status = status;
        this.content = content;
    }

    public String getMimeType() {
        return type;
    }

    public int getStatusCode() {
        return status;
    }

    public InputStream getData() {
        return content;
    }
}
