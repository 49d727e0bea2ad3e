package ai.edgemem.demo;

import android.content.Context;
import android.content.res.AssetManager;
import android.view.View;
import android.webkit.WebResourceRequest;
import android.webkit.WebResourceResponse;
import android.webkit.WebView;
import android.webkit.WebViewClient;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Collections;

/** A page that `edgemem export -f web` wrote, from the folder assets/web: its model runs through WebGPU. */
final class BundlePage extends WebViewClient {
  // No such host can exist. Pages of https have WebGPU and digests, which those of files have not.
  private static final String HOST = "edgemem.invalid";
  private final AssetManager assets;

  private BundlePage(AssetManager assets) {
    this.assets = assets;
  }

  static boolean isThere(AssetManager assets) {
    try {
      assets.open("web/index.html").close();
      return true;
    } catch (IOException missing) {
      return false;
    }
  }

  static View open(Context context) {
    WebView view = new WebView(context);
    view.getSettings().setJavaScriptEnabled(true);
    view.getSettings().setAllowFileAccess(false);
    view.setWebViewClient(new BundlePage(context.getAssets()));
    view.loadUrl("https://" + HOST + "/index.html");
    return view;
  }

  /** All that the page asks for comes from the assets, or is not there: nothing goes to a network. */
  @Override
  public WebResourceResponse shouldInterceptRequest(WebView view, WebResourceRequest request) {
    String path = request.getUrl().getPath();
    if (HOST.equals(request.getUrl().getHost()) && path != null) {
      try {
        return answer(200, "OK", type(path), assets.open("web" + path));
      } catch (IOException missing) {
        // as for other hosts
      }
    }
    return answer(404, "Not Found", "text/plain", new ByteArrayInputStream(new byte[0]));
  }

  private static WebResourceResponse answer(int status, String reason, String type, InputStream content) {
    return new WebResourceResponse(type, "utf-8", status, reason, Collections.emptyMap(), content);
  }

  private static String type(String path) {
    if (path.endsWith(".html")) {
      return "text/html";
    }
    return path.endsWith(".js") ? "text/javascript" : "application/octet-stream";
  }
}
