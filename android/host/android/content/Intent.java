package android.content;

import android.net.Uri;

/** A stand-in. */
public class Intent {
  public static final String ACTION_GET_CONTENT = "android.intent.action.GET_CONTENT";
  public static final String CATEGORY_OPENABLE = "android.intent.category.OPENABLE";

  public final String action;
  public Uri data;

  public Intent(String action) {
    this.action = action;
  }

  public Intent setType(String type) {
    return this;
  }

  public Intent addCategory(String category) {
    return this;
  }

  public Uri getData() {
    return data;
  }
}
