package ai.edgemem.demo;

import ai.edgemem.Provider;
import android.app.Activity;
import android.content.ActivityNotFoundException;
import android.content.ContentResolver;
import android.content.Intent;
import android.net.Uri;
import android.os.Bundle;
import android.system.ErrnoException;
import android.system.Os;

/**
 * The app's only screen. The engine survives a turn of the screen; it drops its waiting runs when the app leaves the
 * front, and ends its session on its own thread when the activity is finished.
 */
public final class MainActivity extends Activity implements Screen.Actions {
  private static final int FIRST_RUNS = 5;
  private static final int MORE_RUNS = 50;
  private static final int PICK = 1;
  private static final String PLANNED = "planned";
  private static final String PROVIDER = "provider";

  private Engine engine;
  private Screen screen;

  @Override
  protected void onCreate(Bundle saved) {
    super.onCreate(saved);
    screen = new Screen(this, this);
    engine = (Engine) getLastNonConfigurationInstance();
    if (engine == null) {
      refuseTelemetry();
      engine = new Engine(new AndroidHost(this));
      boolean inPlan = saved == null || saved.getBoolean(PLANNED, true);
      int provider = saved == null ? 0 : saved.getInt(PROVIDER, 0);
      engine.open(inPlan, Provider.values()[provider], FIRST_RUNS);
    }
    screen.showChoice(engine.isPlanned(), engine.provider());
    setContentView(screen.root);
  }

  /** ONNX Runtime reads this before its first session. The app may not use the network, either. */
  private static void refuseTelemetry() {
    try {
      Os.setenv("ORT_DISABLE_TELEMETRY", "1", true);
    } catch (ErrnoException e) {
      throw new IllegalStateException("the environment cannot be changed", e); // for a name that is wrong
    }
  }

  @Override
  protected void onStart() {
    super.onStart();
    engine.attach(screen::show);
  }

  @Override
  protected void onStop() {
    engine.attach(null);
    if (!isChangingConfigurations()) {
      engine.pause();
    }
    super.onStop();
  }

  @Override
  public Object onRetainNonConfigurationInstance() {
    return engine;
  }

  @Override
  protected void onSaveInstanceState(Bundle state) {
    super.onSaveInstanceState(state);
    state.putBoolean(PLANNED, engine.isPlanned());
    state.putInt(PROVIDER, engine.provider().ordinal());
  }

  @Override
  protected void onDestroy() {
    if (!isChangingConfigurations()) {
      engine.close();
    }
    super.onDestroy();
  }

  @Override
  public void plan(boolean inPlan) {
    if (inPlan != engine.isPlanned()) {
      engine.open(inPlan, engine.provider(), FIRST_RUNS);
    }
  }

  @Override
  public void provider(Provider provider) {
    if (provider != engine.provider()) {
      engine.open(engine.isPlanned(), provider, FIRST_RUNS);
    }
  }

  @Override
  public void runAgain() {
    engine.run(MORE_RUNS);
  }

  @Override
  public void choosePicture() {
    Intent intent = new Intent(Intent.ACTION_GET_CONTENT);
    intent.setType("image/*");
    intent.addCategory(Intent.CATEGORY_OPENABLE);
    try {
      startActivityForResult(intent, PICK);
    } catch (ActivityNotFoundException e) {
      screen.warn("no app on this device offers pictures");
    }
  }

  @Override
  protected void onActivityResult(int request, int result, Intent data) {
    super.onActivityResult(request, result, data);
    Uri uri = data == null ? null : data.getData();
    if (request == PICK && result == RESULT_OK && uri != null) {
      ContentResolver resolver = getApplicationContext().getContentResolver();
      engine.choose(() -> Pictures.load(resolver, uri));
    }
  }
}
