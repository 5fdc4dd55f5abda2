import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./app.css";
import { again } from "./api/queries";
import { SignInGate } from "./pages/sign-in";
import { router } from "./router";
import { Toasts } from "./ui/toast";

const client = new QueryClient({
  defaultOptions: {
    // Events say what is old of what is shown; what is shown again is asked for again.
    queries: { retry: again, staleTime: 0, refetchOnWindowFocus: true },
  },
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <SignInGate>
          <RouterProvider router={router} />
        </SignInGate>
        <Toasts />
      </QueryClientProvider>
    </StrictMode>,
  );
}
