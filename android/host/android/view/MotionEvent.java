package android.view;

/** A stand-in. */
public final class MotionEvent extends InputEvent {
  public static final int ACTION_DOWN = 0;
  public static final int ACTION_UP = 1;

  private final int action;
  private final float x;
  private final float y;

  public MotionEvent(int action, float x, float y) {
    this.action = action;
    this.x = x;
    this.y = y;
  }

  public final int getAction() {
    return action;
  }

  public final float getX() {
    return x;
  }

  public final float getY() {
    return y;
  }
}
