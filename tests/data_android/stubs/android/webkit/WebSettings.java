package android.webkit;

public class WebSettings {
    public void setJavaScriptEnabled(boolean flag) {
    }

    public void setAllowFileAccess(boolean flag) {
    }
}
