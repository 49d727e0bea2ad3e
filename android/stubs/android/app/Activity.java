package android.app;

import android.content.Intent;
import android.os.Bundle;
import android.view.ContextThemeWrapper;
import android.view.View;

public class Activity extends ContextThemeWrapper {
  public static final int RESULT_OK = -1;

  public Activity() {
    throw new RuntimeException("stub");
  }

  protected void onCreate(Bundle savedInstanceState) {
    throw new RuntimeException("stub");
  }

  protected void onStart() {
    throw new RuntimeException("stub");
  }

  protected void onStop() {
    throw new RuntimeException("stub");
  }

  protected void onDestroy() {
    throw new RuntimeException("stub");
  }

  protected void onSaveInstanceState(Bundle outState) {
    throw new RuntimeException("stub");
  }

  public Object getLastNonConfigurationInstance() {
    throw new RuntimeException("stub");
  }

  public Object onRetainNonConfigurationInstance() {
    throw new RuntimeException("stub");
  }

  public boolean isChangingConfigurations() {
    throw new RuntimeException("stub");
  }

  public void setContentView(View view) {
    throw new RuntimeException("stub");
  }

  public void startActivityForResult(Intent intent, int requestCode) {
    throw new RuntimeException("stub");
  }

  protected void onActivityResult(int requestCode, int resultCode, Intent data) {
    throw new RuntimeException("stub");
  }
}
