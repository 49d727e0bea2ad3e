package ai.edgemem.demo;

import ai.edgemem.Level;
import android.app.Activity;
import android.os.Bundle;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.ScrollView;
import android.widget.TextView;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/** Shows the plan that the model's file carries, which plan ran, how long it took, and what came out. */
public final class MainActivity extends Activity {
  private final ExecutorService worker = Executors.newSingleThreadExecutor();

  @Override
  protected void onCreate(Bundle saved) {
    super.onCreate(saved);
    TextView text = new TextView(this);
    ScrollView scroll = new ScrollView(this);
    scroll.addView(text);
    LinearLayout column = new LinearLayout(this);
    column.setOrientation(LinearLayout.VERTICAL);
    if (BundlePage.isThere(getAssets())) {
      Button page = new Button(this);
      page.setText("Run it in a page, through WebGPU");
      page.setOnClickListener(clicked -> setContentView(BundlePage.open(this)));
      column.addView(page);
    }
    column.addView(scroll);
    setContentView(column);
    text.setText("running ...");
    worker.execute(
        () -> {
          String report = report();
          runOnUiThread(() -> text.setText(report));
        });
  }

  @Override
  protected void onDestroy() {
    worker.shutdown();
    super.onDestroy();
  }

  private String report() {
    try {
      JSONObject info = new JSONObject(new String(read("edgemem.json"), StandardCharsets.UTF_8));
      Level level = Level.valueOf(info.getString("level").toUpperCase(Locale.ROOT));
      byte[] model = read(info.getString("model"));
      return Report.of(info.getString("name"), model, level, shapes(info.getJSONObject("shapes")));
    } catch (Exception | LinkageError | OutOfMemoryError failed) {
      return "It does not run: " + failed;
    }
  }

  private static Map<String, long[]> shapes(JSONObject info) throws JSONException {
    Map<String, long[]> shapes = new LinkedHashMap<>();
    for (Iterator<String> names = info.keys(); names.hasNext(); ) {
      String name = names.next();
      JSONArray sizes = info.getJSONArray(name);
      long[] shape = new long[sizes.length()];
      for (int i = 0; i < shape.length; i++) {
        shape[i] = sizes.getLong(i);
      }
      shapes.put(name, shape);
    }
    return shapes;
  }

  private byte[] read(String asset) throws IOException {
    try (InputStream in = getAssets().open(asset)) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream(Math.max(in.available(), 32));
      byte[] block = new byte[1 << 16];
      for (int count = in.read(block); count >= 0; count = in.read(block)) {
        bytes.write(block, 0, count);
      }
      return bytes.toByteArray();
    }
  }
}
