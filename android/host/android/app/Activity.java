package android.app;

import android.content.ActivityNotFoundException;
import android.content.Intent;
import android.os.Bundle;
import android.view.ContextThemeWrapper;
import android.view.View;

/** A stand-in whose life the tests conduct. */
public class Activity extends ContextThemeWrapper {
  public static final int RESULT_OK = -1;

  /** What setContentView was called with. */
  public View content;

  /** What the app asked another one for; null if nothing is open. */
  public Intent asked;

  public int askedCode;
  private Object retained;
  private boolean isTurning;

  public Activity() {}

  /** Starts it with what one before kept and saved, null for nothing. */
  public void launch(Object kept, Bundle saved) {
    retained = kept;
    onCreate(saved);
    onStart();
  }

  /** Stops it, and gives the state that it saved. */
  public Bundle leave(boolean toTurn) {
    isTurning = toTurn;
    Bundle state = new Bundle();
    onStop();
    onSaveInstanceState(state);
    return state;
  }

  public void end() {
    onDestroy();
  }

  public void background() {
    onStop();
  }

  public void foreground() {
    onStart();
  }

  /** The answer of the app that was asked. */
  public void answer(int result, Intent data) {
    if (asked == null) {
      throw new IllegalStateException("the activity asked no other app");
    }
    asked = null;
    onActivityResult(askedCode, result, data);
  }

  protected void onCreate(Bundle savedInstanceState) {}

  protected void onStart() {}

  protected void onStop() {}

  protected void onDestroy() {}

  protected void onSaveInstanceState(Bundle outState) {}

  public Object getLastNonConfigurationInstance() {
    return retained;
  }

  public Object onRetainNonConfigurationInstance() {
    return null;
  }

  public boolean isChangingConfigurations() {
    return isTurning;
  }

  public void setContentView(View view) {
    content = view;
  }

  public void startActivityForResult(Intent intent, int requestCode) {
    if (Boolean.getBoolean("host.alone")) {
      throw new ActivityNotFoundException();
    }
    asked = intent;
    askedCode = requestCode;
  }

  protected void onActivityResult(int requestCode, int resultCode, Intent data) {}
}
